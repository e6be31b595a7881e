/** Result documents: the words of docs/results-format.md. */

/** A number as JSON carries it: non-finite values travel as strings. */
export type JsonNumber = number | "NaN" | "Infinity" | "-Infinity";

export type Verdict = "pass" | "fail" | "error" | "unsupported" | "unbounded";

export interface DeviceFacts {
  id: string;
  name: string;
  user_agent: string;
  adapter: { vendor: string; architecture: string; device: string; description: string };
  features: string[];
  limits: Record<string, number>;
}

export interface Element {
  output: number;
  index: number[];
  expected: JsonNumber;
  got: JsonNumber;
  /** What it may differ by; results of earlier versions lack it. */
  bound?: JsonNumber | null;
}

export interface Tolerance {
  absolute: JsonNumber;
  relative: JsonNumber;
  reasons: string[];
  /** A tensor: what each element may differ by. */
  bound?: TensorRef;
  /** A tensor: groups of equals, any of which an index element may be. */
  ties?: TensorRef;
}

export interface TensorRef {
  digest: string;
  dtype: string;
  shape: number[];
}

export interface Diagnostic {
  severity: string;
  line: number;
  column: number;
  message: string;
  source: string;
  file: string;
}

export interface TestResult {
  id: string;
  node: string;
  kernel: string;
  step: number;
  device: string;
  verdict: Verdict;
  max_abs_error: JsonNumber | null;
  max_rel_error: JsonNumber | null;
  max_ulp: JsonNumber | null;
  ulp_histogram: number[];
  mismatched: number;
  /** Results of earlier versions lack these two. */
  unbounded?: number;
  tied?: number;
  total: number;
  nan: number;
  inf: number;
  first: Element | null;
  worst: Element | null;
  tolerances: Tolerance[];
  seconds: Record<string, number>;
  message: string;
  edited: boolean;
  /** Results of earlier versions lack these two. */
  variant?: string | null;
  error?: ErrorEvidence | null;
  diagnostics: Diagnostic[];
}

/** What a device said of an error beside its message. */
export interface ErrorEvidence {
  kind: string;
  gpu_message: string | null;
  lost_reason: string | null;
  arguments: { dtype: string; shape: number[] }[] | null;
  stack: string | null;
}

export interface ValidationDocument {
  format: "tapml.validation/1";
  suite: string;
  suite_name: string;
  synthetic: boolean;
  created: string;
  interrupted: boolean;
  edited_kernels: string[];
  devices: DeviceFacts[];
  tests: TestResult[];
  summary: {
    total: number;
    pass: number;
    fail: number;
    error: number;
    unsupported: number;
    /** Documents of earlier versions lack it. */
    unbounded?: number;
    failing_kernels: string[];
    seconds: number;
    devices: Record<string, Record<string, number>>;
  };
}

export interface ModelMetric {
  cosine: JsonNumber | null;
  max_abs_error: JsonNumber | null;
  step: number;
}

export interface OffloadStep {
  kernel: string;
  nodes: string[];
  operator_verdict: Verdict;
  model_metric: ModelMetric | null;
  kept: boolean;
  offloaded_nodes: number;
  segments: number;
  seconds: number;
  message: string;
}

export interface OffloadFinal {
  verdict: Verdict;
  mode: string;
  model_metric: ModelMetric | null;
  seconds: Record<string, number | number[]>;
  message: string;
  kept_on_reference: string[];
}

export interface OffloadDocument {
  format: "tapml.offload/1";
  suite: string;
  suite_name: string;
  synthetic: boolean;
  created: string;
  interrupted: boolean;
  edited_kernels: string[];
  devices: DeviceFacts[];
  model_tolerance: { cosine: number; max_abs_error: number; reasons: string[] };
  steps: OffloadStep[];
  final: OffloadFinal | null;
  summary: {
    kernels: number;
    offloaded: number;
    kept_on_reference: string[];
    nodes: number;
    offloaded_nodes: number;
    seconds: number;
  };
}
