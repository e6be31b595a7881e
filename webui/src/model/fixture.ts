/** A small suite for the unit tests: take -> norm -> reshape -> norm, two devices. */

import type { DeviceDocument, OffloadStep, TestResult, Verdict } from "../api/generated/results";
import type { Device, SuiteDetail } from "../api/types";
import type { Tensor } from "./tensor";

export function device(id: string, name = id): Device {
  const facts: DeviceDocument = {
    id,
    name,
    runtime: "browser",
    user_agent: `${name}/1`,
    adapter: { vendor: "", architecture: "", device: "", description: "software" },
    features: [],
    limits: {},
  };
  return { ...facts, busy: false, unavailable: null, started: null };
}

export function result(test: string, on: string, verdict: Verdict = "pass"): TestResult {
  const node = test.split(".")[0] ?? "";
  return {
    id: test,
    node,
    kernel: node === "n0" ? "take" : "norm",
    step: 0,
    device: on,
    verdict,
    max_abs_error: 0,
    max_rel_error: 0,
    max_ulp: 0,
    ulp_histogram: [1],
    mismatched: 0,
    unbounded: verdict === "unbounded" ? 1 : 0,
    tied: 0,
    total: 1,
    nan: 0,
    inf: 0,
    first: null,
    worst: null,
    tolerances: [],
    seconds: {},
    message: "",
    edited: false,
    variant: null,
    error: null,
    diagnostics: [],
  };
}

export const suite: SuiteDetail = {
  id: "s",
  name: "s",
  created: "",
  model: { kind: "onnx", source: "", title: "" },
  synthetic: false,
  nodes: 4,
  bytes: 0,
  edited: ["norm"],
  oracle: null,
  doubts: [],
  reference: { platform: "", device: "" },
  generation: null,
  steps: [],
  graph: {
    values: [
      { id: "ids", name: "input_ids", dtype: "int32", shape: [1], kind: "input" },
      { id: "w", name: "embeddings.weight", dtype: "float32", shape: [8, 4], kind: "parameter" },
      ...["a", "b", "c", "d"].map((id) => ({
        id,
        name: "",
        dtype: "float32",
        shape: [4],
        kind: "intermediate" as const,
      })),
    ],
    nodes: [
      { id: "n0", kind: "kernel", kernel: "take", inputs: ["w", "ids"], outputs: ["a"] },
      { id: "n1", kind: "kernel", kernel: "norm", inputs: ["a"], outputs: ["b"] },
      { id: "n2", kind: "view", kernel: "reshape", inputs: ["b"], outputs: ["c"] },
      { id: "n3", kind: "kernel", kernel: "norm", inputs: ["c", "c"], outputs: ["d"] },
    ],
    inputs: ["ids"],
    outputs: ["d"],
  },
  tests: [
    { id: "n0.s0", node: "n0", kernel: "take", step: 0 },
    { id: "n1.s0", node: "n1", kernel: "norm", step: 0 },
    { id: "n3.s0", node: "n3", kernel: "norm", step: 0 },
  ],
  kernels: [
    {
      kernel: "take",
      nodes: 1,
      edited: false,
      compiler: "tvm",
      unsupported: null,
      variants: [],
      files: [],
      encodings: {},
    },
    {
      kernel: "norm",
      nodes: 2,
      edited: true,
      compiler: "tvm",
      unsupported: null,
      variants: [],
      files: [],
      encodings: {},
    },
  ],
};

/** A move of an offload that was kept. */
export function offloadStep(
  kernel: string,
  nodes: string[],
  changes: Partial<OffloadStep> = {},
): OffloadStep {
  return {
    kernel,
    nodes,
    operator_verdict: "pass",
    model_metric: { step: 0, cosine: 1, max_abs_error: 0, choices: [] },
    kept: true,
    offloaded_nodes: 1,
    segments: 1,
    seconds: 0,
    message: "",
    ...changes,
  };
}

/** A float32 tensor. */
export function floats(shape: number[], of: (flat: number) => number): Tensor {
  const values = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, flat) => of(flat));
  return { shape, dtype: "float32", bytes: new Uint8Array(values.buffer) };
}
