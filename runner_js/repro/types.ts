/** Types of tapml.repro/2, one carved test by itself, and of what a run of it gives. */
import type {
  AdapterInfo,
  Binding,
  Comparison,
  Diagnostic,
  DType,
  Element,
  Expression,
  Launch,
  Operand,
  Symbol as SizeSymbol,
  Sizes,
  TensorRef,
  TensorType,
  Uniform,
  Verdict,
} from "../src/protocol/messages";
import type { DeviceFacts, Measured } from "./generated/results";

export type { AdapterInfo, Diagnostic, DType, Element, TensorRef, TensorType, Verdict };

export type Tensor = TensorRef & { name: string };

export interface Bound {
  absolute: number;
  relative: number;
  reasons: string[];
  /** What each element may differ by, float32; Infinity where nothing is promised. */
  bound?: TensorRef | null;
  /** Rows (group, kind, number), int32: kind 0 an element's position, 1 a value. */
  ties?: TensorRef | null;
}

export type Output = Tensor & { tolerance: Bound };

/** A tolerance with the elements of its tensors. */
export interface Allowed {
  absolute: number;
  relative: number;
  bound?: Float32Array | null;
  ties?: Int32Array | null;
}

export type { Binding, Expression, Launch, Operand, Uniform };

export interface EntryPoint {
  name: string;
  file: string;
  bindings: Binding[];
  /** Invocations along x, y, z. */
  workgroup_size: number[];
}

export interface Requires {
  features: string[];
  limits: Record<string, number>;
}

export interface Variant {
  name: string;
  requires: Requires;
  entry_points: EntryPoint[];
  launches: Launch[];
  /** Bytes of scratch buffers. */
  temporaries: Expression[];
}

/** tapml.kernel/3, as far as it is used here. */
export interface Bundle {
  kernel: string;
  symbols: SizeSymbol[];
  /** Best first. */
  variants: Variant[];
  /** Why there is no WGSL. */
  unsupported: string | null;
}

export type Device = Omit<DeviceFacts, "runtime">;

/** What a result and an outcome have in common, numbers over all outputs. */
export type Numbers = Omit<Measured, "ulp_histogram" | "edited" | "seconds" | "error" | "diagnostics"> & {
  seconds: Outcome["seconds"];
  error: Omit<NonNullable<Outcome["error"]>, "diagnostics"> | null;
  diagnostics: Diagnostic[];
};

export interface Repro {
  format: string;
  created: string;
  tapml: string;
  suite: { id: string; name: string; synthetic: boolean };
  model: { title: string; source: string; sha256: string };
  /** What gave the expected outputs. */
  reference: { platform: string; device: string };
  test: { id: string; node: string; kernel: string; step: number; sizes: Sizes };
  inputs: Tensor[];
  outputs: Output[];
  kernel: Bundle;
  files: { name: string; sha256: string; edited: boolean; text: string }[];
  /** Who reported it, and with what result. */
  report: { created: string; device: Device; result: Numbers } | null;
}

/** One output against the expected one; the runner also counts a histogram. */
export type Compared = Omit<Comparison, "ulp_histogram">;

/** Where an output is wrong, over its last two axes: for each cell 0 inside the tolerance, 1..254 outside, 255 NaN or Inf. */
export interface ErrorMap {
  output: number;
  width: number;
  height: number;
  /** Elements that one cell stands for, down and across. */
  step: [number, number];
  cells: Uint8Array;
}

/** What one run gave. */
export interface Outcome {
  verdict: Verdict;
  message: string;
  variant: string | null;
  outputs: Compared[];
  error: {
    kind: string;
    gpu_message?: string | null;
    lost_reason?: string | null;
    diagnostics?: Diagnostic[] | null;
  } | null;
  seconds: Record<string, number | null | undefined>;
  maps: ErrorMap[];
  device: Device | null;
}

export type Bytes = Uint8Array<ArrayBuffer>;

export type Reproduced = "yes" | "no" | "different" | "unsupported" | "not-run" | "unreported";

/** What the page shows now. */
export interface View {
  state: "loading" | "waiting" | "running" | "done";
  /** Under the heading while it is not done. */
  text: string;
  outcome: Outcome | null;
}
