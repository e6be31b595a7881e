import type {
  Binding,
  Command,
  Kernel,
  Requires,
  TensorRef,
  TensorType,
  Variant,
} from "../protocol/messages";

export interface KernelText {
  name: string;
  /** Of the buffers, which are p0, p1, ... and the call's arguments in this order; then come the temporaries. */
  access: readonly ("read" | "write")[];
  /** Functions, before the entry point. */
  functions?: string;
  /** Statements; `i` is the invocation's number. */
  body: string;
  /** Elements that the invocations must cover. */
  elements: number;
  scalars?: readonly { type: "i32" | "u32" | "f32"; value: number }[];
  temporaries?: readonly number[];
  invocations?: number;
  requires?: Partial<Requires>;
  variant?: string;
}

const SCALAR_DTYPES = { i32: "int32", u32: "uint32", f32: "float32" } as const;

/** WGSL as TVM writes it: bindings in order, the uniform last, with the workgroups along x at its end. */
export function variantOf(text: KernelText, put: (digest: string, code: string) => string): Variant {
  const { name, access, scalars = [], temporaries = [], invocations = 64, requires = {} } = text;
  const variant = text.variant ?? "default";
  const buffers = access.map((kind, binding) => {
    const mode = kind === "write" ? "read_write" : "read";
    return `@group(0) @binding(${binding}) var<storage, ${mode}> p${binding} : array<f32>;`;
  });
  const fields = scalars.map(({ type }, i) => `s${i} : ${type}, `).join("");
  const code = `${buffers.join("\n")}
${text.functions ?? ""}
struct PODArgs { ${fields}packGridDimX : u32 }
@group(0) @binding(${access.length}) var<uniform> podArgs : PODArgs;
@compute @workgroup_size(${invocations})
fn ${name}_kernel(
  @builtin(workgroup_id) blockIdx : vec3<u32>,
  @builtin(num_workgroups) gridDim : vec3<u32>,
  @builtin(local_invocation_id) threadIdx : vec3<u32>
) {
  if (blockIdx.z * gridDim.x + blockIdx.x >= podArgs.packGridDimX) { return; }
  let i = (blockIdx.z * gridDim.x + blockIdx.x) * ${invocations} + threadIdx.x;
  if (i >= ${text.elements}) { return; }
  ${text.body}
}
`;
  const bindings: Binding[] = access.map((kind, binding) => {
    return { binding, access: kind === "write" ? "read_write" : "read" };
  });
  bindings.push({ binding: access.length, access: "uniform" });
  const entryPoint = `${name}_kernel`;
  const workgroups = Math.ceil(text.elements / invocations);
  const given = access.length - temporaries.length;
  return {
    name: variant,
    requires: { features: [], limits: {}, ...requires },
    entry_points: [
      { name: entryPoint, file: `${name}.wgsl`, code: put(`${name}.${variant}.wgsl`, code), bindings },
    ],
    launches: [
      {
        entry_point: entryPoint,
        operands: access.map((_, i) => (i < given ? { argument: i } : { temporary: i - given })),
        uniforms: [
          ...scalars.map(({ type, value }, i) => ({ name: `s${i}`, dtype: SCALAR_DTYPES[type], value })),
          { name: "packGridDimX", dtype: "uint32", value: workgroups },
        ],
        grid: [workgroups, 1, 1],
      },
    ],
    temporaries: [...temporaries],
  };
}

export function kernelOf(text: KernelText, put: (digest: string, code: string) => string): Kernel {
  return { kernel: text.name, symbols: [], variants: [variantOf(text, put)] };
}

/** The same kernel, with functions that each call the one before twice: compilers put all 2^30 calls into one. */
export function endlessCompilation(text: KernelText): KernelText {
  const calls = Array.from(
    { length: 30 },
    (_, n) => `fn f${n + 1}(x : f32) -> f32 { return f${n}(x) + f${n}(x + 1.0); }`,
  );
  const functions = ["fn f0(x : f32) -> f32 { return x * 1.5 + p0[1]; }", ...calls].join("\n");
  return { ...text, functions, body: "p2[i] = f30(p0[i]);" };
}

/** p1 = 2 p0 + the scratch buffer p2, of as many elements as a call's size n says: 1 to 10,000,000. */
export function doubleOf(put: (digest: string, code: string) => string): Kernel {
  const code = `
@group(0) @binding(0) var<uniform> sizes : vec2u;
@group(0) @binding(2) var<storage, read> x : array<f32>;
@group(0) @binding(4) var<storage, read_write> y : array<f32>;
@group(0) @binding(7) var<storage, read_write> scratch : array<f32>;
@compute @workgroup_size(1)
fn double(@builtin(workgroup_id) group : vec3u, @builtin(num_workgroups) grid : vec3u) {
  let i = group.z * grid.x + group.x;
  if (i >= sizes.x) { return; }
  scratch[i] = x[i];
  y[i] = x[i] + scratch[i];
}`;
  const rows = ["ceildiv", "n", 65_535];
  const variant: Variant = {
    name: "by-hand",
    requires: { features: [], limits: {} },
    entry_points: [
      {
        name: "double",
        file: "double.wgsl",
        code: put("double.wgsl", code),
        bindings: [
          { binding: 0, access: "uniform" },
          { binding: 7, access: "read_write" },
          { binding: 2, access: "read" },
          { binding: 4, access: "read_write" },
        ],
      },
    ],
    launches: [
      {
        entry_point: "double",
        operands: [{ argument: 0 }, { argument: 1 }, { temporary: 0 }],
        uniforms: [
          { name: "n", dtype: "uint32", value: "n" },
          { name: "unused", dtype: "uint32", value: 0 },
        ],
        grid: [["ceildiv", "n", rows], 1, rows],
      },
    ],
    temporaries: [["mul", "n", 4]],
  };
  return { kernel: "double", symbols: [{ name: "n", minimum: 1, maximum: 10_000_000 }], variants: [variant] };
}

/** p2 = p0 + p1 */
export function addText(elements: number): KernelText {
  return { name: "add", access: ["read", "read", "write"], body: "p2[i] = p0[i] + p1[i];", elements };
}

export function floats(...shape: number[]): TensorType {
  return { dtype: "float32", shape };
}

export const load = (...kernels: Kernel[]): Command => ({ op: "load", library: "l", kernels });
export const upload = (tensor: string, ref: TensorRef): Command => ({ op: "upload", tensor, ...ref });
export const allocate = (tensor: string, ...shape: number[]): Command => {
  return { op: "allocate", tensor, ...floats(...shape) };
};
export const view = (tensor: string, of: string, ...shape: number[]): Command => {
  return { op: "view", tensor, of, shape };
};
export const callAt = (sizes: Record<string, number>, kernel: string, ...tensors: string[]): Command => {
  return { op: "call", library: "l", kernel, sizes, arguments: tensors };
};
export const call = (kernel: string, ...tensors: string[]): Command => {
  return { op: "call", library: "l", kernel, arguments: tensors };
};
export const download = (tensor: string): Command => ({ op: "download", tensor });
export const free = (...tensors: string[]): Command => ({ op: "free", tensors });
