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
  validation: { device: string; passed: number; failing: string[] }[];
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
}

/** In the detail the lists stand where the summary has their counts. */
export interface SuiteDetail extends SuiteFacts {
  steps: { description: string; inputs: Record<string, TensorRef>; outputs: TensorRef[] }[];
  graph: Graph;
  tests: TestRef[];
  kernels: KernelSummary[];
}

export interface KernelFile {
  name: string;
  text: string;
  edited: boolean;
}

export interface KernelDetail {
  kernel: string;
  files: KernelFile[];
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
    operands: ({ argument: number } | { temporary: number })[];
    grid: Expression[];
  }[];
  temporaries: Expression[];
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
}

export interface Startable {
  name: string;
  available: boolean;
  message: string;
}

export interface Devices {
  connected: Device[];
  startable: Startable[];
}

export interface Results {
  validations: ValidationDocument[];
  offloads: OffloadDocument[];
  locates: LocateDocument[];
  /** Device id -> kernels that were edited since its validation ran. */
  outdated: Record<string, string[]>;
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
  | { type: "compile"; device: string; kernel: string; done: number; total: number }
  | { type: "verdict"; device: string; result: TestResult }
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
