import type { Command, Kernel, Requires, TensorRef, TensorType, Variant } from "../protocol/messages";

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

const SCALAR_DTYPES = { i32: "int32", u32: "uint32", f32: "float32" };

/** WGSL and signature as TVM writes them: bindings in order, the uniform last, x folded into z. */
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
  const flags = access.map((kind) => (kind === "write" ? 1 : 0)).join(",");
  const info = {
    name: `${name}_kernel`,
    arg_types: [...access.map(() => "handle"), ...scalars.map(({ type }) => SCALAR_DTYPES[type])],
    launch_param_tags: ["blockIdx.x", "threadIdx.x", `paramWriteAccess:[${flags}]`],
  };
  const given = access.length - temporaries.length;
  return {
    name: variant,
    requires: { features: [], limits: {}, ...requires },
    entry_points: [
      { name: info.name, file: `${name}.wgsl`, code: put(`${name}.${variant}.wgsl`, code), info },
    ],
    launches: [
      {
        entry_point: info.name,
        arguments: [
          ...access.map((_, i) => (i < given ? { argument: i } : { temporary: i - given })),
          ...scalars.map(({ type, value }) => ({ scalar: value, dtype: SCALAR_DTYPES[type] })),
        ],
        dispatch: [Math.ceil(text.elements / invocations), 1, 1],
        workgroup_size: [invocations, 1, 1],
      },
    ],
    temporaries: [...temporaries],
  };
}

export function kernelOf(text: KernelText, put: (digest: string, code: string) => string): Kernel {
  return { kernel: text.name, variants: [variantOf(text, put)] };
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
export const call = (kernel: string, ...tensors: string[]): Command => {
  return { op: "call", library: "l", kernel, arguments: tensors };
};
export const download = (tensor: string): Command => ({ op: "download", tensor });
export const free = (...tensors: string[]): Command => ({ op: "free", tensors });
