/** Kernels of arrays as compiled models (tapml.model/1), for the runtime to prove and to run. */
/** An integer, a size's name, or [operation, a, b]. */
export type Expression = number | string | readonly [string, Expression, Expression];

type DataType = "float32" | "int32" | "uint32";

export interface Tensor {
  readonly name: string;
  readonly dtype: DataType;
  readonly shape: readonly Expression[];
}

/** A function of one dispatch. */
export interface KernelText {
  readonly name: string;
  readonly inputs: readonly Tensor[];
  readonly output: Tensor;
  /** The most that each size may be; the least is 1. In the text they are `s.NAME`, of u32. */
  readonly sizes: Readonly<Record<string, number>>;
  readonly grid: readonly [Expression, Expression, Expression];
  /** Declares `@compute @workgroup_size(256) fn main`; inputs and output are arrays of their names. */
  readonly wgsl: string;
}

const WGSL = { float32: "f32", int32: "i32", uint32: "u32" };

/** Functions of one model have their sizes in common. */
export function documentOf(name: string, kernels: readonly KernelText[]): object {
  const sizes: Record<string, number> = Object.assign({}, ...kernels.map((kernel) => kernel.sizes));
  return {
    format: "tapml.model/1",
    name,
    title: name,
    provenance: {
      tapml: "0.1.0",
      model: { kind: "onnx", source: "tapml.arrays", sha256: "0".repeat(64), title: null, notes: [] },
      compilers: [],
      suite: null,
      doubts: [],
      edited: [],
    },
    symbols: symbolsOf(sizes),
    weights: { buffers: [], shards: [] },
    states: [],
    wgsl: kernels.map(textOf),
    kernels: kernels.map(kernelOf),
    functions: Object.fromEntries(kernels.map((kernel, at) => [kernel.name, functionOf(kernel, at)])),
    validation: [],
    memory: {},
    tokenizer: null,
    attachments: [],
  };
}

function symbolsOf(sizes: KernelText["sizes"]): object[] {
  return Object.entries(sizes).map(([name, maximum]) => ({ name, minimum: 1, maximum }));
}

function textOf({ inputs, output, sizes, wgsl }: KernelText): string {
  const declared = [...inputs, output].map(({ name, dtype }, at) => {
    const access = at < inputs.length ? "read" : "read_write";
    return `@group(0) @binding(${at}) var<storage, ${access}> ${name} : array<${WGSL[dtype]}>;`;
  });
  const fields = Object.keys(sizes).map((name) => `${name} : u32`);
  return `${declared.join("\n")}
struct Sizes { ${fields.join(", ")} }
@group(0) @binding(${declared.length}) var<uniform> s : Sizes;
${wgsl}`;
}

function kernelOf({ name, inputs, output, sizes, grid }: KernelText, wgsl: number): object {
  const all = [...inputs, output];
  return {
    kernel: name,
    symbols: symbolsOf(sizes),
    arguments: all.map(({ dtype, shape }, at) => ({
      ...{ dtype, shape, role: at < inputs.length ? ("input" as const) : ("output" as const) },
    })),
    variants: [
      {
        name: "256",
        requires: { features: [], limits: {} },
        entry_points: [
          {
            name: "main",
            file: `${name}.wgsl`,
            wgsl,
            workgroup_size: [256, 1, 1],
            bindings: [
              ...inputs.map((_, binding) => ({ binding, access: "read" as const })),
              { binding: inputs.length, access: "read_write" },
              { binding: all.length, access: "uniform" },
            ],
          },
        ],
        launches: [
          {
            entry_point: "main",
            operands: all.map((_, argument) => ({ argument })),
            uniforms: Object.keys(sizes).map((size) => ({ name: size, dtype: "uint32", value: size })),
            grid: [...grid],
          },
        ],
        temporaries: [],
      },
    ],
  };
}

function functionOf({ inputs, output }: KernelText, kernel: number): object {
  const given = inputs.map((input, at) => ({ ...input, at: ["input", at] }));
  const tensors = [...given, { ...output, at: ["output", 0] }];
  return {
    inputs: inputs.map(({ name }, tensor) => ({ name, tensor })),
    outputs: [{ name: output.name, tensor: inputs.length }],
    arena: [],
    tensors,
    code: [{ op: "dispatch", kernel, operands: tensors.map((_, at) => at), temporaries: [] }],
  };
}
