/** Types of tapml.repro/2, one carved test by itself, and of what a run of it gives. */
import type { ErrorMap } from "../src/compare/error_map";
import type * as protocol from "../src/protocol/messages";
import type { DeviceFacts, Measured } from "./generated/results";

export type Tensor = protocol.TensorRef & { name: string };

export type Output = Tensor & { tolerance: protocol.Tolerance & { reasons: string[] } };

/** With invocations along x, y, z. */
export type EntryPoint = Omit<protocol.EntryPoint, "code"> & { workgroup_size: number[] };

export type Variant = Omit<protocol.Variant, "entry_points"> & { entry_points: EntryPoint[] };

export type Device = Omit<DeviceFacts, "runtime">;

/** What a result and an outcome have in common, numbers over all outputs. */
export type Numbers = Omit<Measured, "ulp_histogram" | "edited" | "seconds" | "error" | "diagnostics"> & {
  seconds: Outcome["seconds"];
  error: Omit<NonNullable<Outcome["error"]>, "diagnostics" | "message"> | null;
  diagnostics: protocol.Diagnostic[];
};

export interface Repro {
  format: string;
  created: string;
  tapml: string;
  suite: { id: string; name: string; synthetic: boolean; doubts: string[] };
  model: { title: string; source: string; sha256: string };
  /** What gave the expected outputs. */
  reference: { platform: string; device: string };
  test: { id: string; node: string; kernel: string; step: number; sizes: protocol.Sizes };
  inputs: Tensor[];
  outputs: Output[];
  /** tapml.kernel/4, as far as it is used here: variants are ordered, best first; `unsupported` says why there is no WGSL. */
  kernel: {
    kernel: string;
    symbols: protocol.Symbol[];
    /** Inputs, then outputs; `overwrites` of an output: the input in whose bytes it is written, by its place. */
    arguments: { overwrites?: number | null }[];
    variants: Variant[];
    unsupported: string | null;
  };
  files: { name: string; sha256: string; edited: boolean; text: string }[];
  /** Who reported it, and with what result. */
  report: { created: string; device: Device; result: Numbers } | null;
}

/** What one run gave. */
export interface Outcome extends Pick<protocol.TestVerdict, "verdict" | "message" | "variant" | "outputs"> {
  error: protocol.ErrorReport | null;
  seconds: Record<string, number | null | undefined>;
  maps: ErrorMap[];
  device: Device | null;
}

export type Bytes = Uint8Array<ArrayBuffer>;

export type Reproduced = "yes" | "no" | "different" | "unsupported" | "not-run" | "unreported";

/** What the page shows now. */
export interface View {
  state: "waiting" | "running" | "done";
  /** Under the heading while it is not done. */
  text: string;
  outcome: Outcome | null;
}
