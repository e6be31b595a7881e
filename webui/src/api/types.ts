/**
 * What the server sends: the words of docs/http-api.md, nothing added.
 * Result documents (docs/results-format.md) are in generated/results.ts.
 */

import type { Expression } from "../../../runner_js/src/program/expressions";
import type {
  DeviceDocument,
  LocateDocument,
  OffloadDocument,
  OffloadStep,
  TestResult,
  ToleranceDocument,
  ValidationDocument,
} from "./generated/results";

export interface TensorRef {
  digest: string;
  dtype: string;
  shape: number[];
}

export interface Oracle {
  name: string;
  cosine: number;
  max_abs_error: number;
  agrees: boolean;
}

export interface SuiteFacts {
  id: string;
  name: string;
  created: string;
  model: { kind: string; source: string; title: string };
  synthetic: boolean;
  nodes: number;
  bytes: number;
  edited: string[];
  oracle: Oracle | null;
  /** Why there is no oracle; suite-format.md has it, http-api.md does not promise it. */
  oracle_missing?: string | null;
  /** Why its reference is not to be believed, a sentence each. */
  doubts: string[];
  reference: { platform: string; device: string };
}

export interface SuiteSummary extends SuiteFacts {
  kernels: number;
  tests: number;
}

/** Of a compiled model: a size that a call decides is its symbol's name, or a list where it follows from such. */
export interface ModelPort {
  name: string;
  dtype: string;
  shape: Expression[];
}

export interface ModelSummary {
  id: string;
  single: boolean;
  content: string;
  name: string;
  title: string;
  source: string;
  bytes: number;
  weights: number;
  kernels: number;
  symbols: { name: string; minimum: number; maximum: number }[];
  functions: Record<string, { inputs: ModelPort[]; outputs: ModelPort[] }>;
  memory: Record<string, { strategy: string; naive: number; planned: number; lower_bound: number }>;
  tokenizer: boolean;
  doubts: string[];
  edited: string[];
  validation: { device: string; passed: number; failing: string[]; unsupported: string[] }[];
  /** What is wrong with a file that no page loads. */
  incomplete: string | null;
}

/** A model that no page could load. */
export interface ModelProblem {
  id: string;
  problem: string;
}

export interface ModelList {
  models: (ModelSummary | ModelProblem)[];
  /** How many more there are. */
  left_out: number;
  /** Is there something at /pages/? */
  pages: boolean;
}

/** A suite that was damaged since the server opened it. */
export interface SuiteProblem {
  id: string;
  problem: string;
}

export interface Value {
  id: string;
  name: string;
  dtype: string;
  shape: number[];
  kind: "input" | "parameter" | "intermediate";
}

export interface GraphNode {
  id: string;
  kind: "kernel" | "view";
  kernel: string;
  inputs: string[];
  outputs: string[];
}

export interface Graph {
  values: Value[];
  nodes: GraphNode[];
  inputs: string[];
  outputs: string[];
}

export interface TestRef {
  id: string;
  node: string;
  kernel: string;
  step: number;
}

export interface KernelSummary {
  kernel: string;
  nodes: number;
  edited: boolean;
  /** What made it. */
  compiler: string;
  unsupported: string | null;
  /** In the order in which a device tries them. */
  variants: string[];
  files: string[];
  /** By variant and argument: layouts that are no row-major buffers. */
  encodings: Record<string, Record<string, string>>;
}

/** How a suite of a language model writes. */
export interface SuiteGeneration {
  capacity: number;
  vocabulary: number;
  bytes_per_token: number;
  tokenizer: boolean;
  /** It attends to what an encoder leaves, so nothing is written here. */
  encoder: boolean;
  /** That it was carved with. */
  prompt: string | null;
}

/** In the detail the lists stand where the summary has their counts. */
export interface SuiteDetail extends SuiteFacts {
  /** Null where the model writes no text. */
  generation: SuiteGeneration | null;
  steps: { description: string; inputs: Record<string, TensorRef>; outputs: TensorRef[] }[];
  graph: Graph;
  tests: TestRef[];
  kernels: KernelSummary[];
}

/** A file of a kernel: its text, its SHA-256, and where it lies. */
export interface TextFile {
  name: string;
  text: string;
  digest: string;
  path: string;
}

export interface KernelFile extends TextFile {
  edited: boolean;
}

export interface KernelDetail {
  /** Of these texts, as `kernel_digests` of results; null where the kernel is damaged. */
  digest: string | null;
  kernel: string;
  files: KernelFile[];
  /** Its kernels/NAME.json. */
  document: TextFile;
  nodes: string[];
  bundle: KernelBundle;
  unsupported: string | null;
}

/** kernels/NAME.json, tapml.kernel/4, as far as it is shown beside its JSON. */
export interface KernelBundle {
  arguments: { role: "input" | "output"; overwrites?: number | null }[];
  /** In the order in which a device tries them. */
  variants: KernelVariant[];
}

export interface KernelVariant {
  name: string;
  requires: { features: string[]; limits: Record<string, number> };
  entry_points: {
    name: string;
    file: string;
    workgroup_size: number[];
    bindings: { binding: number; access: string; name: string; type: string }[];
  }[];
  launches: {
    entry_point: string;
    operands: ({ argument: number } | { temporary: number } | { texture: number })[];
    uniforms?: { name: string; dtype: string; value: Expression }[];
    grid: Expression[];
  }[];
  temporaries: Expression[];
  /** Between its launches. */
  textures?: { dimension: string; format: string; size: Expression[] }[];
}

export interface TensorStatistics extends TensorRef {
  role: "input" | "output";
  value: string;
  name: string;
  min: number | null;
  max: number | null;
  mean: number | null;
  std: number | null;
  nan: number;
  inf: number;
  zeros: number;
  histogram: { edges: number[]; counts: number[] } | null;
  head: (number | string)[];
}

export interface TestDetail extends TestRef {
  tensors: TensorStatistics[];
  tolerances: ToleranceDocument[];
}

export interface Device extends DeviceDocument {
  busy: boolean;
  unavailable: string | null;
  /** What the server started it as ("chromium"); null for one that somebody opened. */
  started: string | null;
}

/** One that was connected. */
export interface GoneDevice extends DeviceDocument {
  why: string;
}

/** How another machine's browser becomes a device; without `link` none can. */
export interface PairingLink {
  link: string | null;
  /** `path`: the dark modules of a square of `size`, for SVG. */
  qr: { size: number; path: string } | null;
  secure: boolean;
  /** This machine's in its network. */
  address: string | null;
  port: number;
  seconds: number;
}

export interface Startable {
  name: string;
  available: boolean;
  message: string;
}

export interface Devices {
  connected: Device[];
  startable: Startable[];
  gone: GoneDevice[];
}

/** A kernel as it is on disk. */
export interface KernelNow {
  /** Of all that a device is given of it, as `kernel_digests` of results; null where it is damaged. */
  digest: string | null;
  edited: boolean;
}

/** Body of the Socket.IO event "kernels": they were written, by whomever. */
export interface KernelsMessage {
  suite: string;
  kernels: Record<string, KernelNow>;
}

export interface Results {
  validations: ValidationDocument[];
  offloads: OffloadDocument[];
  locates: LocateDocument[];
  kernels: Record<string, KernelNow>;
  /** Sentences of results that are left out, for they are no such documents. */
  problems: string[];
}

/** A link to one test; the link itself is told once, when it is made. */
export interface Share {
  /** Revokes it. */
  name: string;
  test: string;
  kernel: string;
  device: string | null;
  verdict: string | null;
  created: string;
  expires: string | null;
}

export type JobKind = "validation" | "offload" | "locate";
export type JobEnd = "done" | "failed" | "cancelled";

export interface Job {
  job: string;
  kind: JobKind;
  suite: string;
  state: "running" | JobEnd;
  events: JobEvent[];
  next: number;
  document: ValidationDocument | OffloadDocument | LocateDocument | null;
  error: string | null;
}

export type JobEvent =
  /** `kernels` is not promised by version 1; with it a job started elsewhere shows what it waits for. */
  | { type: "started"; kind: JobKind; total: number; kernels?: string[] | null }
  | { type: "device"; device: Device }
  | { type: "kernels"; digests: Record<string, string>; trial?: boolean }
  | { type: "compile"; device: string; kernel: string; done: number; total: number; left?: number | null }
  | { type: "verdict"; device: string; result: TestResult; left?: number | null }
  | { type: "step"; device: string; step: OffloadStep; number: number; total: number }
  | { type: "final"; device: string; final: OffloadDocument["final"] }
  | { type: "examine"; device: string; kernel: string; test: string; number: number; total: number }
  | { type: "model"; device: string; runs: number; text: string }
  | { type: "message"; level: "info" | "warning" | "error"; text: string }
  | { type: "ended"; state: JobEnd; error: string | null };

/** Body of the Socket.IO event "job". */
export interface JobMessage {
  job: string;
  suite: string;
  number: number;
  event: JobEvent;
}
