/** Compiled models made by hand, and a server of them, for tests. */
import type {
  CompiledFunction,
  CompiledKernel,
  CompiledModel,
  CompiledTensor,
  Expression,
  Instruction,
} from "../compiled/generated/model";

/** p(last) = body, for each of the elements of the last argument; sizes are uniforms of the names of `symbols`. */
export interface ElementwiseText {
  name: string;
  inputs: number;
  /** An expression of p0[i], p1[i], ... and s.NAME. */
  body: string;
  /** Of each argument. */
  shape?: CompiledTensor["shape"];
  symbols?: { name: string; minimum: number; maximum: number }[];
  requires?: { features: string[]; limits: Record<string, number> };
}

export const N = { name: "n", minimum: 1, maximum: 1000 };

/** A kernel over float32 tensors of n elements, and its WGSL. */
export function elementwise(text: ElementwiseText, wgsl: number): [CompiledKernel, string] {
  const { name, inputs, body, shape = ["n"], symbols = [N] } = text;
  const bindings = Array.from({ length: inputs }, (_, i) => {
    return `@group(0) @binding(${i}) var<storage, read> p${i} : array<f32>;`;
  });
  const fields = symbols.map((symbol) => `${symbol.name} : u32,`).join(" ");
  const code = `${bindings.join("\n")}
@group(0) @binding(${inputs}) var<storage, read_write> out : array<f32>;
${symbols.length ? `struct Sizes { ${fields} }\n@group(0) @binding(${inputs + 1}) var<uniform> s : Sizes;` : ""}
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id : vec3u) {
  let i = id.x;
  if (i >= arrayLength(&out)) { return; }
  out[i] = ${body};
}
`;
  const argument = (role: "input" | "output") => ({ dtype: "float32" as const, shape, role });
  const first = shape[0] ?? 1;
  const kernel: CompiledKernel = {
    kernel: name,
    symbols,
    arguments: [...bindings.map(() => argument("input")), argument("output")],
    variants: [
      {
        name: "default",
        requires: text.requires ?? { features: [], limits: {} },
        entry_points: [
          {
            name: "main",
            file: `${name}.wgsl`,
            wgsl,
            workgroup_size: [64, 1, 1],
            bindings: [
              ...bindings.map((_, binding) => ({ binding, access: "read" as const })),
              { binding: inputs, access: "read_write" },
              ...(symbols.length ? [{ binding: inputs + 1, access: "uniform" as const }] : []),
            ],
          },
        ],
        launches: [
          {
            entry_point: "main",
            operands: Array.from({ length: inputs + 1 }, (_, i) => ({ argument: i })),
            uniforms: symbols.map((symbol) => ({ name: symbol.name, dtype: "uint32", value: symbol.name })),
            grid: [["ceildiv", first, 64], 1, 1],
          },
        ],
        temporaries: [],
      },
    ],
  };
  return [kernel, code];
}

export const tensor = (
  name: string,
  at: CompiledTensor["at"],
  shape: CompiledTensor["shape"] = ["n"],
  dtype: CompiledTensor["dtype"] = "float32",
): CompiledTensor => ({ name, dtype, shape, at });

export const dispatch = (kernel: number, ...operands: number[]): Instruction => ({
  op: "dispatch",
  kernel,
  operands,
  temporaries: [],
});

export const branch = (condition: Expression, yes: Instruction[], no: Instruction[]): Instruction => ({
  op: "if",
  condition,
  // biome-ignore lint/suspicious/noThenProperty: the document's name; nothing awaits an instruction.
  then: yes,
  else: no,
});

/** A function of `tensors`: inputs and outputs are those that lie there. */
export function functionOf(
  tensors: CompiledTensor[],
  code: Instruction[],
  arena: number[] = [],
): CompiledFunction {
  const ports = (kind: string) =>
    tensors.flatMap((found, index) => (found.at[0] === kind ? [{ name: found.name, tensor: index }] : []));
  return { inputs: ports("input"), outputs: ports("output"), arena, tensors, code };
}

export interface ModelText {
  kernels?: ElementwiseText[];
  functions: Record<string, CompiledFunction>;
  weights?: Float32Array<ArrayBuffer>[];
  /** How they lie in shards: of bfloat16 the upper halves of their words. */
  stored?: "bfloat16";
  states?: CompiledModel["states"];
  symbols?: CompiledModel["symbols"];
  name?: string;
}

/** A model and its shards, of `piece` bytes each. */
export async function modelOf(text: ModelText, piece = 4096): Promise<TestModel> {
  const { functions, weights = [], states = [], symbols = [N], name = "little" } = text;
  const kernels = (text.kernels ?? []).map((kernel, i) => elementwise(kernel, i));
  const files = new Map<string, Uint8Array<ArrayBuffer>>();
  const shards: CompiledModel["weights"]["shards"] = [];
  for (const [buffer, values] of weights.entries()) {
    const words = new Uint32Array(values.buffer);
    const bytes = new Uint8Array(
      text.stored ? Uint16Array.from(words, (word) => word >>> 16).buffer : words.buffer,
    );
    const times = text.stored ? 2 : 1;
    for (let offset = 0; offset < bytes.length; offset += piece) {
      const part = bytes.slice(offset, offset + piece);
      const sha256 = await digestOf(part);
      files.set(`weights/${sha256}.bin`, part);
      const stored = text.stored ? { stored: text.stored } : {};
      shards.push({ sha256, bytes: part.length, buffer, offset: offset * times, ...stored });
    }
  }
  const document: CompiledModel = {
    format: "tapml.model/1",
    name,
    title: name,
    provenance: {
      tapml: "0.1.0",
      model: { kind: "onnx", source: "little.onnx", sha256: "0".repeat(64), title: null, notes: [] },
      compilers: [],
      suite: null,
      doubts: [],
      edited: [],
    },
    symbols,
    weights: { buffers: weights.map((values) => values.byteLength), shards },
    states,
    wgsl: kernels.map(([, code]) => code),
    kernels: kernels.map(([kernel]) => kernel),
    functions,
    validation: [],
    memory: {},
    tokenizer: null,
    attachments: [],
  };
  return new TestModel(document, files);
}

const ORIGIN = "http://models.test/";

/** A model, and the server that it is loaded from. */
export class TestModel {
  readonly url = `${ORIGIN}little.tapml/`;
  /** Paths that were asked for. */
  readonly asked: string[] = [];
  /** What becomes of an answer. */
  change: (path: string, bytes: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer> | Promise<never> = (
    _,
    bytes,
  ) => bytes;

  constructor(
    readonly document: CompiledModel,
    readonly files: Map<string, Uint8Array<ArrayBuffer>>,
  ) {}

  readonly fetch = async (url: string, init: RequestInit = {}): Promise<Response> => {
    init.signal?.throwIfAborted();
    const path = url.slice(this.url.length);
    this.asked.push(path);
    const bytes =
      path === "model.json" ? new TextEncoder().encode(JSON.stringify(this.document)) : this.files.get(path);
    if (!bytes) return new Response("no such file", { status: 404 });
    return new Response(await this.change(path, bytes));
  };

  /** The same as one file. */
  single(): Uint8Array<ArrayBuffer> {
    const text = new TextEncoder().encode(JSON.stringify(this.document));
    const head = new Uint8Array(16);
    head.set(new TextEncoder().encode("TAPMLM1\n"));
    new DataView(head.buffer).setBigUint64(8, BigInt(text.length), true);
    const parts: Uint8Array<ArrayBuffer>[] = [head, text];
    let end = 16 + text.length;
    for (const { sha256 } of this.document.weights.shards) {
      const part = this.files.get(`weights/${sha256}.bin`) as Uint8Array<ArrayBuffer>;
      parts.push(new Uint8Array((256 - (end % 256)) % 256), part);
      end = Math.ceil(end / 256) * 256 + part.length;
    }
    const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }
}

async function digestOf(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** i times `scale` */
export const range = (count: number, scale = 1) => Float32Array.from({ length: count }, (_, i) => scale * i);

/** y = x and, in each turn of a loop, x once more, by two arenas. */
export const repeated = (count: Expression, most: number): ModelText => ({
  kernels: [{ name: "add", inputs: 2, body: "p0[i] + p1[i]" }],
  functions: {
    main: functionOf(
      [
        tensor("x", ["input", 0]),
        tensor("a", ["arena", 0, 0]),
        tensor("b", ["arena", 1, 0]),
        tensor("y", ["output", 0]),
      ],
      [
        { op: "copy", from: 0, to: 1 },
        {
          op: "loop",
          variable: "i",
          count,
          most,
          body: [dispatch(0, 1, 0, 2), { op: "copy", from: 2, to: 1 }],
        },
        { op: "copy", from: 1, to: 3 },
      ],
      [4000, 4000],
    ),
  },
});

/** y = (x + w) * 2, by an intermediate in an arena. */
export const ADD: ModelText = {
  kernels: [
    { name: "add", inputs: 2, body: "p0[i] + p1[i]" },
    { name: "double", inputs: 1, body: "2.0 * p0[i]" },
  ],
  weights: [range(1000, 0.5)],
  functions: {
    main: functionOf(
      [
        tensor("x", ["input", 0]),
        tensor("w", ["weights", 0, 0]),
        tensor("sum", ["arena", 0, 0]),
        tensor("y", ["output", 0]),
      ],
      [dispatch(0, 0, 1, 2), dispatch(1, 2, 3)],
      [4000],
    ),
  },
};

/** y = total += x */
export const COUNTER: ModelText = {
  kernels: [{ name: "add", inputs: 2, body: "p0[i] + p1[i]", shape: [1], symbols: [] }],
  symbols: [],
  states: [{ name: "total", dtype: "float32", shape: [1], initial: null }],
  functions: {
    main: functionOf(
      [
        tensor("x", ["input", 0], [1]),
        tensor("total", ["state", 0], [1]),
        tensor("next", ["arena", 0, 0], [1]),
        tensor("y", ["output", 0], [1]),
      ],
      [dispatch(0, 1, 0, 2), { op: "copy", from: 2, to: 1 }, { op: "copy", from: 2, to: 3 }],
      [256],
    ),
  },
};
