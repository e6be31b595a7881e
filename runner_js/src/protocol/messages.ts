/**
 * The session protocol between the tapml server and a device (docs/protocol.md is the prose).
 *
 * Control travels over Socket.IO, namespace "/device"; bulk bytes over HTTP by SHA-256 digest.
 * The Python half of these types is backend/tapml/devices/protocol.py: change both together
 * (tests/devices/test_protocol.py compares the field names).
 */

/** Raised whenever a message changes shape; the server refuses a runner that speaks another one. */
export const PROTOCOL_VERSION = 1;

/** Lower-case hexadecimal SHA-256 of the bytes; fetched from `/blobs/<digest>`. */
export type Digest = string;

/** Element types a device buffer may hold. WGSL has no i64, f64 or bool storage. */
export type DType = "float32" | "float16" | "int32" | "uint32" | "int8" | "uint8";

/** A number as JSON can carry it: non-finite values travel as strings. */
export type JsonNumber = number | "NaN" | "Infinity" | "-Infinity";

// ---------------------------------------------------------------- runner -> server

/** First message after connecting, event "hello"; acknowledged with HelloAck. */
export interface Hello {
  protocol: number;
  /** Device id given by an earlier HelloAck: the device came back after a broken connection. */
  resume: string | null;
  /** Taken from `?device=` of the runner's address, so that a server knows the tab it opened. */
  tag: string | null;
  name: string;
  user_agent: string;
  adapter: AdapterInfo;
  features: string[];
  limits: Record<string, number>;
  /** Why this device cannot run kernels (no WebGPU, no adapter); null when it can. */
  unavailable: string | null;
}

export interface AdapterInfo {
  vendor: string;
  architecture: string;
  device: string;
  description: string;
}

export type HelloAck = { device: string } | { error: string };

/** Event "progress": something worth showing before the call's reply. */
export interface Progress {
  call: string;
  progress: CompileProgress | TestVerdict;
}

export interface CompileProgress {
  kind: "compile";
  kernel: string;
  /** Kernels compiled so far, of how many. */
  done: number;
  total: number;
  seconds: number;
}

/** Event "reply": the end of a call, exactly one for each. */
export type Reply =
  | { call: string; ok: true; result: unknown }
  | { call: string; ok: false; error: DeviceError };

export interface DeviceError {
  /** device-lost: the GPU device is gone; the runner makes a new one for the next call. */
  kind:
    | "compile"
    | "validation"
    | "out-of-memory"
    | "internal"
    | "device-lost"
    | "fetch"
    | "protocol"
    | "unsupported";
  message: string;
  kernel?: string;
  diagnostics?: Diagnostic[];
  stack?: string;
}

/** One message of GPUCompilationInfo; line and column count from 1. */
export interface Diagnostic {
  severity: "error" | "warning" | "info";
  line: number;
  column: number;
  message: string;
  /** The line of WGSL the message points at. */
  source: string;
  /** File of the kernel the line is in, for example "layer_norm.wgsl". */
  file: string;
}

// ---------------------------------------------------------------- server -> runner

/** Event "cancel": nobody waits for this call any more; stop it at the next chance and reply as to an error. */
export interface CancelCall {
  call: string;
}

/** Event "call". */
export type Call =
  | { call: string; method: "validate"; params: ValidateParams }
  | { call: string; method: "execute"; params: ExecuteParams }
  | { call: string; method: "run_model"; params: RunModelParams }
  | { call: string; method: "ping"; params: Record<string, never> };

/** A kernel: what one operator compiles to; one or more WGSL entry points. */
export interface Kernel {
  kernel: string;
  entry_points: EntryPoint[];
  requires: Requires;
}

export interface EntryPoint {
  name: string;
  /** File name shown in diagnostics. */
  file: string;
  /** Digest of the WGSL text. */
  code: Digest;
  /** What tvmjs' createShaderAsync takes beside the text. */
  info: { name: string; arg_types: string[]; launch_param_tags: string[] };
}

export interface Requires {
  features: string[];
  /** GPUSupportedLimits name -> least value. */
  limits: Record<string, number>;
}

/** One dispatch. The order of `arguments` is that of the entry point's `info.arg_types`. */
export interface Launch {
  entry_point: string;
  arguments: LaunchArgument[];
  /** blockIdx extents x, y, z (before tvmjs folds x >= 65536). */
  dispatch: [number, number, number];
  /** threadIdx extents x, y, z. */
  workgroup_size: [number, number, number];
}

export type LaunchArgument =
  /** Index into the operator's arguments: inputs, then outputs. */
  | { argument: number }
  /** Index into the call's temporaries. */
  | { temporary: number }
  | { scalar: number; dtype: string };

export interface TensorType {
  dtype: DType;
  shape: number[];
}

export interface TensorRef extends TensorType {
  digest: Digest;
}

/** Element e passes when abs(got - expected) <= absolute + relative * abs(expected). */
export interface Tolerance {
  absolute: number;
  relative: number;
}

// ---- validate: carved tests, compared on the device

export interface ValidateParams {
  kernels: Kernel[];
  tests: Test[];
}

export interface Test {
  id: string;
  kernel: string;
  inputs: TensorRef[];
  /** Expected outputs; the device's buffers start filled with 0xFF (NaN for floats). */
  outputs: TensorRef[];
  tolerances: Tolerance[];
  launches: Launch[];
  /** Sizes in bytes of scratch buffers that live for this call only. */
  temporaries: number[];
}

export type Verdict = "pass" | "fail" | "error" | "unsupported";

/** Progress of "validate", one for each test. */
export interface TestVerdict {
  kind: "verdict";
  id: string;
  kernel: string;
  verdict: Verdict;
  /** One for each output; empty for error and unsupported. */
  outputs: Comparison[];
  /** One sentence for a person; empty when it passed. */
  message: string;
  error: DeviceError | null;
  /** Seconds spent. `run` is an equal share of the batch the test ran in. */
  seconds: { fetch: number; compile: number; run: number; compare: number };
}

export interface Comparison {
  total: number;
  mismatched: number;
  /** Elements that are NaN (Inf) on the device while the expected one is not. */
  nan: number;
  inf: number;
  /** Over the elements where both are finite. */
  max_abs_error: number;
  /** The same, over those whose expected value is not 0. */
  max_rel_error: number;
  /** Distance in representable values of the dtype where both are finite; for integers the absolute difference. */
  max_ulp: number;
  /**
   * Counts of elements with ULP distance 0, 1, 2, 3-4, 5-8, 9-16, ... (powers of two up to 2^32), last: NaN on one
   * side. 35 counts for every dtype; Inf counts as the value after the largest finite one.
   */
  ulp_histogram: number[];
  /** The first mismatched element. */
  first: Element | null;
  /** The element with the largest excess over the tolerance, NaN and Inf before all others; null if none differs. */
  worst: Element | null;
}

export interface Element {
  index: number[];
  expected: JsonNumber;
  got: JsonNumber;
}

/** Result of "validate". Every verdict has already travelled as progress. */
export interface ValidateResult {
  seconds: { fetch: number; compile: number; upload: number; run: number; compare: number; total: number };
}

// ---- execute: a list of commands over tensors that stay on the device, under names the server chose

export interface ExecuteParams {
  kernels: Kernel[];
  commands: Command[];
}

export type Command =
  /** Bytes of `digest` into a new tensor. A tensor of that name is replaced. */
  | { op: "upload"; tensor: string; digest: Digest; dtype: DType; shape: number[] }
  /** A new tensor; filled with 0xFF. */
  | { op: "allocate"; tensor: string; dtype: DType; shape: number[] }
  /** The same buffer under a second name and shape. */
  | { op: "view"; tensor: string; of: string; shape: number[] }
  | { op: "call"; kernel: string; arguments: string[]; launches: Launch[]; temporaries: number[] }
  /** Bytes go, one download after the other, in the body of one POST to /api/calls/<call>/downloads. */
  | { op: "download"; tensor: string }
  | { op: "free"; tensor: string }
  /** Free every tensor whose name starts with this. */
  | { op: "free_prefix"; prefix: string };

export interface ExecuteResult {
  /** Bytes of each download, in order. */
  downloads: number[];
  seconds: { fetch: number; compile: number; run: number; total: number };
}

// ---- run_model: the whole model through the tvmjs virtual machine, as it would be deployed

export interface RunModelParams {
  /** The model library: TVM's runtime and the model's code, linked to one wasm file. */
  wasm: Digest;
  function: string;
  /** Inputs, then parameters, in the order of the function's arguments. */
  arguments: TensorRef[];
  outputs: TensorType[];
  /** WGSL to use instead of what the library holds, by entry point: edited kernels. */
  replace: Record<string, Digest>;
  /** Times to run it, at least 1; the first run's outputs are downloaded as in "execute". */
  runs: number;
}

export interface RunModelResult {
  downloads: number[];
  seconds: { fetch: number; instantiate: number; compile: number; upload: number; runs: number[] };
}
