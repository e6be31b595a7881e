/** What `tapml locate` found: the words of docs/results-format.md, "tapml.locate/1". */

import type { DeviceFacts, JsonNumber, Verdict } from "./documents";

export interface LocateDocument {
  format: "tapml.locate/1";
  suite: string;
  suite_name: string;
  synthetic: boolean;
  created: string;
  interrupted: boolean;
  edited_kernels: string[];
  devices: DeviceFacts[];
  runs: number;
  summary: {
    /** Most certain first. */
    faulty_kernels: string[];
    /** "unknown": interrupted before anything was suspected. */
    verdict: "clean" | "faulty" | "compound" | "unknown";
    tests: number;
    seconds: number;
    parts: Record<string, number>;
  };
  /** Suspects, most certain first; what is unsupported last. */
  kernels: Suspect[];
  model: ModelCheck | null;
}

export interface Suspect {
  kernel: string;
  /** Those that fail. */
  nodes: string[];
  passing_nodes: string[];
  verdict: Verdict;
  tests: { failed: number; total: number };
  score: number;
  reason: string;
  edited: boolean;
  findings: Finding[];
  /** Null: it was not run again. */
  deterministic: boolean | null;
  runs: number;
  /** Elements that differ from run to run. */
  differing: number;
  test: string;
  outputs: WrongOutput[];
}

export interface Finding {
  pattern: string;
  text: string;
  strength: number;
}

export interface WrongElement {
  index: number[];
  expected: JsonNumber;
  got: JsonNumber;
  bound: JsonNumber;
}

export interface WrongOutput {
  output: number;
  shape: number[];
  dtype: string;
  total: number;
  mismatched: number;
  unbounded: number;
  nan: number;
  inf: number;
  max_abs_error: JsonNumber;
  max_excess: JsonNumber;
  bound: { min: JsonNumber; median: JsonNumber; max: JsonNumber; reasons: string[] };
  first: WrongElement | null;
  worst: WrongElement | null;
  heatmap: HeatMap;
}

export interface HeatMap {
  rows: number;
  columns: number;
  /** Elements a cell spans. */
  row_extent: number;
  column_extent: number;
  /** 0: inside the bound; from 0.25 on: outside, by the excess' logarithm; null: none outside and some unbounded. */
  values: (number | null)[][];
}

export interface ModelCheck {
  verdict: "pass" | "fail" | "error";
  metric: { cosine: JsonNumber | null; max_abs_error: JsonNumber | null; step: number } | null;
  tolerance: { cosine: number; max_abs_error: number; reasons: string[] };
  growth: GrownNode[];
  /** The nodes whose return to the reference brings the model back; null where too many share the error. */
  minimal_nodes: string[] | null;
  model_runs: number;
  text: string;
}

/** One node in the order of the graph: how far its output is off when all nodes run on the device. */
export interface GrownNode {
  node: string;
  kernel: string;
  error: JsonNumber;
  relative: JsonNumber;
  /** Its own part, with the carved inputs. */
  local: JsonNumber | null;
  amplification: JsonNumber | null;
}
