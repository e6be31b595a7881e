/**
 * Checks what the network sent before anything acts on it: types, digests, sizes. The checked objects are built
 * anew, so that nothing travels further that is not in messages.ts.
 */
import type {
  Call,
  Command,
  Digest,
  DType,
  EntryPoint,
  ExecuteParams,
  Kernel,
  Launch,
  LaunchArgument,
  Requires,
  RunModelParams,
  TensorRef,
  TensorType,
  Test,
  Tolerance,
  ValidateParams,
} from "./messages";

/** A message that is not what the protocol says. */
export class ProtocolError extends Error {
  override name = "ProtocolError";
}

type Fields = Record<string, unknown>;

const DTYPES: readonly string[] = ["float32", "float16", "int32", "uint32", "int8", "uint8"];
/** More than any GPU buffer; products of extents stay exact far beyond it. */
const MAX_BYTES = 2 ** 40;
const MAX_RANK = 32;
const MAX_ITEMS = 1_000_000;

function wrong(path: string, expected: string): never {
  throw new ProtocolError(`${path} is not ${expected}`);
}

function fields(value: unknown, path: string): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) wrong(path, "an object");
  return value as Fields;
}

function list<T>(value: unknown, path: string, item: (value: unknown, path: string) => T): T[] {
  if (!Array.isArray(value) || value.length > MAX_ITEMS) wrong(path, "a list of sane length");
  return value.map((element, i) => item(element, `${path}[${i}]`));
}

function text(value: unknown, path: string): string {
  if (typeof value !== "string") wrong(path, "a string");
  return value;
}

function whole(value: unknown, path: string, max = MAX_BYTES): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < 0 || value > max) {
    wrong(path, `a whole number from 0 to ${max}`);
  }
  return value;
}

function finite(value: unknown, path: string): number {
  if (typeof value !== "number" || !Number.isFinite(value)) wrong(path, "a finite number");
  return value;
}

function digest(value: unknown, path: string): Digest {
  if (typeof value !== "string" || !/^[0-9a-f]{64}$/.test(value)) wrong(path, "a SHA-256 digest");
  return value;
}

function dtype(value: unknown, path: string): DType {
  if (typeof value !== "string" || !DTYPES.includes(value)) wrong(path, `one of ${DTYPES.join(", ")}`);
  return value as DType;
}

function shape(value: unknown, path: string): number[] {
  const extents = list(value, path, (extent, at) => whole(extent, at, 2 ** 32));
  if (extents.length > MAX_RANK) wrong(path, `a shape of at most ${MAX_RANK} axes`);
  if (extents.reduce((product, extent) => product * extent, 1) > MAX_BYTES / 4) {
    wrong(path, "the shape of a tensor that fits a device");
  }
  return extents;
}

function tensorType(value: unknown, path: string): TensorType {
  const v = fields(value, path);
  return { dtype: dtype(v.dtype, `${path}.dtype`), shape: shape(v.shape, `${path}.shape`) };
}

function tensorRef(value: unknown, path: string): TensorRef {
  return { ...tensorType(value, path), digest: digest(fields(value, path).digest, `${path}.digest`) };
}

function tolerance(value: unknown, path: string): Tolerance {
  const v = fields(value, path);
  const absolute = finite(v.absolute, `${path}.absolute`);
  const relative = finite(v.relative, `${path}.relative`);
  if (absolute < 0 || relative < 0) wrong(path, "a tolerance of at least 0");
  return { absolute, relative };
}

function entryPoint(value: unknown, path: string): EntryPoint {
  const v = fields(value, path);
  const info = fields(v.info, `${path}.info`);
  return {
    name: text(v.name, `${path}.name`),
    file: text(v.file, `${path}.file`),
    code: digest(v.code, `${path}.code`),
    info: {
      name: text(info.name, `${path}.info.name`),
      arg_types: list(info.arg_types, `${path}.info.arg_types`, text),
      launch_param_tags: list(info.launch_param_tags, `${path}.info.launch_param_tags`, text),
    },
  };
}

function requires(value: unknown, path: string): Requires {
  const v = fields(value, path);
  const limits = Object.entries(fields(v.limits, `${path}.limits`)).map(
    ([name, least]) => [name, finite(least, `${path}.limits.${name}`)] as const,
  );
  return { features: list(v.features, `${path}.features`, text), limits: Object.fromEntries(limits) };
}

function kernel(value: unknown, path: string): Kernel {
  const v = fields(value, path);
  return {
    kernel: text(v.kernel, `${path}.kernel`),
    entry_points: list(v.entry_points, `${path}.entry_points`, entryPoint),
    requires: requires(v.requires, `${path}.requires`),
  };
}

function launchArgument(value: unknown, path: string): LaunchArgument {
  const v = fields(value, path);
  if ("argument" in v) return { argument: whole(v.argument, `${path}.argument`) };
  if ("temporary" in v) return { temporary: whole(v.temporary, `${path}.temporary`) };
  return { scalar: finite(v.scalar, `${path}.scalar`), dtype: text(v.dtype, `${path}.dtype`) };
}

function extents(value: unknown, path: string): [number, number, number] {
  const [x, y, z, ...rest] = list(value, path, (extent, at) => whole(extent, at, 2 ** 32));
  if (x === undefined || y === undefined || z === undefined || rest.length) wrong(path, "three extents");
  return [x, y, z];
}

function launch(value: unknown, path: string): Launch {
  const v = fields(value, path);
  return {
    entry_point: text(v.entry_point, `${path}.entry_point`),
    arguments: list(v.arguments, `${path}.arguments`, launchArgument),
    dispatch: extents(v.dispatch, `${path}.dispatch`),
    workgroup_size: extents(v.workgroup_size, `${path}.workgroup_size`),
  };
}

function test(value: unknown, path: string): Test {
  const v = fields(value, path);
  return {
    id: text(v.id, `${path}.id`),
    kernel: text(v.kernel, `${path}.kernel`),
    inputs: list(v.inputs, `${path}.inputs`, tensorRef),
    outputs: list(v.outputs, `${path}.outputs`, tensorRef),
    tolerances: list(v.tolerances, `${path}.tolerances`, tolerance),
    launches: list(v.launches, `${path}.launches`, launch),
    temporaries: list(v.temporaries, `${path}.temporaries`, (bytes, at) => whole(bytes, at)),
  };
}

function command(value: unknown, path: string): Command {
  const v = fields(value, path);
  const tensor = () => text(v.tensor, `${path}.tensor`);
  switch (v.op) {
    case "upload":
      return { op: v.op, tensor: tensor(), ...tensorRef(v, path) };
    case "allocate":
      return { op: v.op, tensor: tensor(), ...tensorType(v, path) };
    case "view":
      return {
        op: v.op,
        tensor: tensor(),
        of: text(v.of, `${path}.of`),
        shape: shape(v.shape, `${path}.shape`),
      };
    case "call":
      return {
        op: v.op,
        kernel: text(v.kernel, `${path}.kernel`),
        arguments: list(v.arguments, `${path}.arguments`, text),
        launches: list(v.launches, `${path}.launches`, launch),
        temporaries: list(v.temporaries, `${path}.temporaries`, (bytes, at) => whole(bytes, at)),
      };
    case "download":
    case "free":
      return { op: v.op, tensor: tensor() };
    case "free_prefix":
      return { op: v.op, prefix: text(v.prefix, `${path}.prefix`) };
    default:
      return wrong(`${path}.op`, "a command");
  }
}

function validateParams(v: Fields): ValidateParams {
  return {
    kernels: list(v.kernels, "params.kernels", kernel),
    tests: list(v.tests, "params.tests", test),
  };
}

function executeParams(v: Fields): ExecuteParams {
  return {
    kernels: list(v.kernels, "params.kernels", kernel),
    commands: list(v.commands, "params.commands", command),
  };
}

function runModelParams(v: Fields): RunModelParams {
  const replace = Object.entries(fields(v.replace, "params.replace")).map(
    ([name, code]) => [name, digest(code, `params.replace.${name}`)] as const,
  );
  const runs = whole(v.runs, "params.runs", 10_000);
  if (runs < 1) wrong("params.runs", "at least 1");
  return {
    wasm: digest(v.wasm, "params.wasm"),
    function: text(v.function, "params.function"),
    arguments: list(v.arguments, "params.arguments", tensorRef),
    outputs: list(v.outputs, "params.outputs", tensorType),
    replace: Object.fromEntries(replace),
    runs,
  };
}

/** The id that a reply to this message must carry; null where there is none to reply to. */
export function callId(message: unknown): string | null {
  if (typeof message !== "object" || message === null || !("call" in message)) return null;
  return typeof message.call === "string" && message.call ? message.call : null;
}

/** Throws ProtocolError naming the field that is wrong. */
export function checkCall(message: unknown): Call {
  const call = callId(message);
  if (call === null) wrong("call", "an id");
  const v = fields(message, "the message");
  const params = fields(v.params, "params");
  switch (v.method) {
    case "validate":
      return { call, method: v.method, params: validateParams(params) };
    case "execute":
      return { call, method: v.method, params: executeParams(params) };
    case "run_model":
      return { call, method: v.method, params: runModelParams(params) };
    case "ping":
      return { call, method: v.method, params: {} };
    default:
      return wrong("method", "one that this runner knows");
  }
}
