/** That a document has the form of a compiled model: every field of its type and in its range, and no other field. */
import { checkedExpression, ExpressionError } from "../program/expressions";
import { isBinding, MOST_TEXELS } from "../program/textures";
import type { Binding } from "../protocol/messages";
import type { CompiledModel } from "./generated/model";

/** A compiled model that is refused; the message is one sentence. */
export class ModelError extends Error {
  override name = "ModelError";
}

/** Throws an error that begins with `where`. */
type Check = (found: unknown, where: string) => void;
type Fields = Record<string, Check>;

const MOST_BYTES = 2 ** 40;
const MOST_CODE = 2 ** 16;
const FILE = "[A-Za-z0-9_][A-Za-z0-9_.+-]*";

/** The document itself. Throws a ModelError with the first field that is wrong. */
export function formed(document: unknown): CompiledModel {
  model(document, "");
  return document as CompiledModel;
}

function wrong(where: string, what: string): never {
  throw new ModelError(`${where || "the document"}: ${what}`);
}

function integer(least: number, most: number, multipleOf = 1): Check {
  return (found, where) => {
    const fits = Number.isSafeInteger(found) && least <= (found as number) && (found as number) <= most;
    if (!fits) wrong(where, `it must be an integer from ${least} to ${most}`);
    if ((found as number) % multipleOf) wrong(where, `it must be a multiple of ${multipleOf}`);
  };
}

function text(most: number, pattern = "", least = 0): Check {
  const form = new RegExp(`^(?:${pattern || "[^]*"})$`);
  return (found, where) => {
    if (typeof found !== "string") wrong(where, "it must be a text");
    const length = found.length > most ? [...found].length : found.length;
    if (length < least || length > most) wrong(where, `it must have from ${least} to ${most} characters`);
    if (!form.test(found)) wrong(where, `it must be like ${pattern}`);
  };
}

function list(of: Check, most: number, least = 0): Check {
  return (found, where) => {
    if (!Array.isArray(found)) wrong(where, "it must be a list");
    if (found.length < least || found.length > most)
      wrong(where, `it must have from ${least} to ${most} items`);
    for (const [number, item] of found.entries()) of(item, `${where}[${number}]`);
  };
}

function one(...values: string[]): Check {
  return (found, where) => {
    if (!values.includes(found as string)) wrong(where, `it must be one of ${values.join(", ")}`);
  };
}

function object(found: unknown, where: string): asserts found is Record<string, unknown> {
  if (typeof found !== "object" || found === null || Array.isArray(found))
    wrong(where, "it must be an object");
}

function record(key: Check, of: Check, most: number): Check {
  return (found, where) => {
    object(found, where);
    const entries = Object.entries(found);
    if (entries.length > most) wrong(where, `it must have at most ${most} fields`);
    for (const [name, value] of entries) {
      key(name, `${where}: a name in it`);
      of(value, `${where}.${name}`);
    }
  };
}

/** Fields whose names end in "?" may be left out. */
function fields(of: Fields): Check {
  const known = new Map(Object.entries(of).map(([name, check]) => [name.replace("?", ""), check]));
  const needed = Object.keys(of).filter((name) => !name.endsWith("?"));
  return (found, where) => {
    object(found, where);
    const place = where && `${where}.`;
    for (const name of Object.keys(found))
      if (!known.has(name)) wrong(`${place}${name.slice(0, 60)}`, "there is no such field");
    for (const name of needed) if (!Object.hasOwn(found, name)) wrong(`${place}${name}`, "it is missing");
    for (const [name, value] of Object.entries(found)) known.get(name)?.(value, `${place}${name}`);
  };
}

function orNull(check: Check): Check {
  return (found, where) => {
    if (found !== null) check(found, where);
  };
}

const number: Check = (found, where) => {
  if (typeof found !== "number" || !Number.isFinite(found)) wrong(where, "it must be a number");
};

const positive: Check = (found, where) => {
  number(found, where);
  if ((found as number) <= 0) wrong(where, "it must be more than 0");
};

const expression: Check = (found, where) => {
  try {
    checkedExpression(found);
  } catch (cause) {
    throw cause instanceof ExpressionError ? new ModelError(`${where}: ${cause.message}`) : cause;
  }
};

const deviceClass = text(100, "[a-z0-9][a-z0-9._-]*(?:/[a-z0-9][a-z0-9._-]*)?");
const index = integer(0, 2 ** 20 - 1);
const operand = integer(0, Number.MAX_SAFE_INTEGER);
const count = integer(0, MOST_BYTES);
const buffer = integer(4, MOST_BYTES, 4);
const offset = integer(0, MOST_BYTES, 256);
const extent = integer(0, 2 ** 32);
const size = integer(0, Number.MAX_SAFE_INTEGER);
const line = text(10_000);
const label = text(2000);
const name = text(500, "", 1);
const symbolName = text(64, "[A-Za-z_][A-Za-z0-9_]{0,63}");
const kernelName = text(200, FILE);
const hostName = text(200, "[A-Za-z_][A-Za-z0-9_.-]*");
const fileName = text(255, `(operators/)?${FILE}`);
const digest = text(64, "[0-9a-f]{64}");
const dtype = one("float32", "float16", "int32", "uint32", "int8", "uint8", "bool");
const tensors = list(index, 10_000);
const typed = {
  dtype,
  shape: list(expression, 32),
  "encoding?": orNull(one("int8x4", "uint8x4", "int4x8", "uint4x8", "float16")),
};

const bounds = fields({ name: symbolName, minimum: size, maximum: size });
const symbol: Check = (found, where) => {
  bounds(found, where);
  const { minimum, maximum } = found as { minimum: number; maximum: number };
  if (minimum > maximum) wrong(where, `the minimum, ${minimum}, is above the maximum, ${maximum}`);
};

const place: Check = (found, where) => {
  if (!Array.isArray(found)) wrong(where, "it must be a list");
  const offsets = found[0] === "weights" || found[0] === "arena" ? [offset] : [];
  if (!offsets.length) one("state", "input", "output")(found[0], `${where}[0]`);
  const checks = [index, ...offsets];
  if (found.length !== checks.length + 1) wrong(where, `it must have ${checks.length + 1} items`);
  for (const [i, check] of checks.entries()) check(found[i + 1], `${where}[${i + 1}]`);
};

const initial: Check = (found, where) => {
  list(size, 2, 2)(found, where);
  const [of, from] = found as number[];
  index(of, `${where}[0]`);
  offset(from, `${where}[1]`);
};

const code: Check = (found, where) => list(instruction, MOST_CODE)(found, where);
const INSTRUCTIONS: Record<string, Check> = Object.fromEntries(
  Object.entries<Fields>({
    dispatch: {
      kernel: index,
      operands: tensors,
      "temporaries?": tensors,
      "sizes?": record(symbolName, expression, 100),
      "node?": orNull(name),
      "parts?": list(fields({ kernel: index, operands: tensors, "node?": orNull(name) }), 100),
    },
    copy: {
      from: index,
      to: index,
      "from_offset?": expression,
      "to_offset?": expression,
      "bytes?": orNull(expression),
    },
    fill: { tensor: index, value: integer(0, 2 ** 32 - 1) },
    let: { name: symbolName, value: expression },
    read: {
      name: symbolName,
      tensor: index,
      index: expression,
      minimum: integer(-(2 ** 31), 2 ** 32 - 1),
      maximum: integer(-(2 ** 31), 2 ** 32 - 1),
      "otherwise?": orNull(text(1000, "", 1)),
    },
    // biome-ignore lint/suspicious/noThenProperty: the name of the field
    if: { condition: expression, then: code, "else?": code },
    loop: {
      variable: symbolName,
      count: expression,
      most: integer(0, 2 ** 20),
      "until?": orNull(index),
      body: code,
    },
    call: { module: hostName, function: hostName, inputs: tensors, outputs: tensors },
  }).map(([op, of]) => [op, fields({ op: one(op), ...of })]),
);
const operation = one(...Object.keys(INSTRUCTIONS));

function instruction(found: unknown, where: string): void {
  object(found, where);
  operation(found.op, `${where}.op`);
  INSTRUCTIONS[found.op as string]?.(found, where);
}

const uniform: Check = (found, where) => {
  fields({ name: label, dtype: one("float32", "int32", "uint32"), value: () => undefined })(found, where);
  const { value } = found as { value: unknown };
  const isFloat = typeof value === "number" && !Number.isSafeInteger(value);
  (isFloat ? number : expression)(value, `${where}.value`);
};

const launch = fields({
  entry_point: name,
  operands: list((found, where) => {
    object(found, where);
    const kind = ["argument", "texture"].find((one) => one in found) ?? "temporary";
    fields({ [kind]: operand })(found, where);
  }, Number.POSITIVE_INFINITY),
  uniforms: list(uniform, Number.POSITIVE_INFINITY),
  grid: list(expression, 3, 3),
});

const dimension = one("2d", "2d-array", "3d");
const texels = integer(1, MOST_TEXELS);
const format = one(
  "r32float",
  "r32sint",
  "r32uint",
  "rgba16float",
  "rgba32float",
  "rgba32sint",
  "rgba32uint",
);

const binding: Check = (found, where) => {
  fields({
    binding: integer(0, 999),
    access: one("read", "read_write", "write", "uniform"),
    "texture?": orNull(fields({ dimension, numbers: one("f32", "i32", "u32"), "format?": orNull(format) })),
  })(found, where);
  if (!isBinding(found as Binding)) wrong(where, "it has no such access");
};

const entryPoint = fields({
  name,
  file: text(255, "[A-Za-z0-9_][A-Za-z0-9_@+.-]*\\.wgsl"),
  wgsl: index,
  workgroup_size: list(extent, 3, 3),
  bindings: list(binding, 1000),
});

const kernel = fields({
  kernel: kernelName,
  symbols: list(symbol, 100),
  arguments: list(fields({ ...typed, role: one("input", "output"), "overwrites?": orNull(index) }), 10_000),
  variants: list(
    fields({
      name,
      requires: fields({
        features: list(label, Number.POSITIVE_INFINITY),
        limits: record(() => undefined, number, Number.POSITIVE_INFINITY),
      }),
      entry_points: list(entryPoint, 1000, 1),
      launches: list(launch, 10_000, 1),
      temporaries: list(expression, 1000),
      "textures?": list(fields({ dimension, format, size: list(texels, 3, 3) }), 100),
      "expected?": orNull(record(deviceClass, positive, 50)),
    }),
    100,
    1,
  ),
});

/** A number, or the name of the size that sequences decide. */
const grown: Check = (value, where) => (typeof value === "string" ? name : extent)(value, where);

const token = integer(0, 2 ** 31 - 1);
const some = integer(1, 2 ** 31 - 1);
const blocks = fields({ input: name, size: some, count: some });
const generation = fields({
  prefill: name,
  decode: name,
  "verify?": orNull(name),
  "next?": orNull(name),
  "draw?": orNull(name),
  "given?": list(name, 10_000),
  chunk: some,
  capacity: some,
  vocabulary: some,
  end: list(token, 1000),
  begin: orNull(token),
  bytes_per_token: count,
  "blocks?": orNull(blocks),
  "places?": orNull(name),
});

const ports = list(fields({ name, tensor: index }), 10_000);
const inputs = list(fields({ name, tensor: index, "range?": orNull(list(expression, 2, 2)) }), 10_000);

const model = fields({
  format: one("tapml.model/1"),
  name,
  title: line,
  provenance: fields({
    tapml: label,
    model: fields({ kind: line, source: line, sha256: line, title: orNull(line), notes: list(line, 1000) }),
    compilers: list(fields({ name: label, version: label }), 100),
    suite: orNull(digest),
    doubts: list(line, 10_000),
    edited: list(kernelName, 10_000),
  }),
  symbols: list(symbol, 100),
  weights: fields({
    buffers: list(buffer, 10_000),
    shards: list(
      fields({
        sha256: digest,
        bytes: integer(4, 2 ** 24, 4),
        buffer: index,
        offset,
        "stored?": orNull(one("float16", "bfloat16")),
      }),
      100_000,
    ),
  }),
  states: list(fields({ name, ...typed, shape: list(grown, 32), initial: orNull(initial) }), 10_000),
  wgsl: list(text(4_000_000), 20_000),
  kernels: list(kernel, 10_000),
  functions: record(
    name,
    fields({
      inputs,
      outputs: ports,
      arena: list(buffer, 1000),
      tensors: list(fields({ name: line, ...typed, at: place, "view?": orNull(index) }), 2 ** 17),
      code,
    }),
    100,
  ),
  validation: list(
    fields({
      device: fields({
        name: line,
        runtime: line,
        user_agent: line,
        adapter: fields({ vendor: label, architecture: label, device: label, description: label }),
      }),
      kernels: record(kernelName, one("pass", "fail", "error", "unsupported", "unbounded"), 10_000),
    }),
    1000,
  ),
  memory: record(name, fields({ strategy: label, naive: count, planned: count, lower_bound: count }), 100),
  "generation?": orNull(generation),
  tokenizer: orNull(fields({ file: fileName, kind: label })),
  attachments: list(fields({ name: fileName, sha256: digest, bytes: integer(0, 2 ** 28) }), 20_000),
});
