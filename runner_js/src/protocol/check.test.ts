import { describe, expect, it } from "vitest";
import { callId, checkCall, ProtocolError } from "./check";
import type { Call } from "./messages";

const DIGEST = "0123456789abcdef".repeat(4);
const ref = { dtype: "float32", shape: [2, 3], digest: DIGEST };
const kernel = {
  kernel: "add",
  entry_points: [
    {
      name: "add_kernel",
      file: "add.wgsl",
      code: DIGEST,
      info: { name: "add_kernel", arg_types: ["handle"], launch_param_tags: ["blockIdx.x"] },
    },
  ],
  requires: { features: ["shader-f16"], limits: { maxBufferSize: 1024 } },
};
const launch = {
  entry_point: "add_kernel",
  arguments: [{ argument: 0 }, { temporary: 0 }, { scalar: 2.5, dtype: "float32" }],
  dispatch: [1, 2, 3],
  workgroup_size: [64, 1, 1],
};
const test = {
  id: "n1.s0",
  kernel: "add",
  inputs: [ref],
  outputs: [ref],
  tolerances: [{ absolute: 1e-5, relative: 0 }],
  launches: [launch],
  temporaries: [4096],
};
const validate = { call: "c1", method: "validate", params: { kernels: [kernel], tests: [test] } };
const execute = {
  call: "c2",
  method: "execute",
  params: {
    kernels: [kernel],
    commands: [
      { op: "upload", tensor: "a", ...ref },
      { op: "allocate", tensor: "b", dtype: "int8", shape: [] },
      { op: "view", tensor: "v", of: "a", shape: [6] },
      { op: "call", kernel: "add", arguments: ["a", "b"], launches: [launch], temporaries: [] },
      { op: "download", tensor: "b" },
      { op: "free", tensor: "b" },
      { op: "free_prefix", prefix: "step1." },
    ],
  },
};
const runModel = {
  call: "c3",
  method: "run_model",
  params: {
    wasm: DIGEST,
    function: "main",
    arguments: [ref],
    outputs: [{ dtype: "float16", shape: [0] }],
    replace: { add_kernel: DIGEST },
    runs: 2,
  },
};

/** A deep copy with the value at `path` ("params.tests.0.id") replaced. */
function withValue(message: object, path: string, value: unknown): unknown {
  const copy = structuredClone(message) as Record<string, unknown>;
  const keys = path.split(".");
  const last = keys.pop() as string;
  let at = copy;
  for (const key of keys) at = at[key] as Record<string, unknown>;
  at[last] = value;
  return copy;
}

describe("checkCall", () => {
  it.each([validate, execute, runModel, { call: "c4", method: "ping", params: {} }])(
    "accepts $method",
    (message) => {
      expect(checkCall(message)).toEqual(message as unknown as Call);
    },
  );

  it("drops what the protocol does not know", () => {
    expect(checkCall(withValue(validate, "params.extra", 1))).toEqual(validate as unknown as Call);
  });

  it.each<[object, string, unknown, string]>([
    [validate, "method", "eval", "method is not one that this runner knows"],
    [validate, "params", null, "params is not an object"],
    [validate, "params.tests", "many", "params.tests is not a list"],
    [validate, "params.tests.0.id", 7, "params.tests[0].id is not a string"],
    [
      validate,
      "params.tests.0.inputs.0.digest",
      "../../etc/passwd",
      "params.tests[0].inputs[0].digest is not a SHA-256",
    ],
    [validate, "params.tests.0.inputs.0.digest", DIGEST.toUpperCase(), "is not a SHA-256 digest"],
    [validate, "params.tests.0.inputs.0.digest", `${DIGEST}\n`, "is not a SHA-256 digest"],
    [validate, "params.tests.0.inputs.0.dtype", "int64", "is not one of float32"],
    [validate, "params.tests.0.inputs.0.shape", [-1], "shape[0] is not a whole number"],
    [validate, "params.tests.0.inputs.0.shape", [1.5], "shape[0] is not a whole number"],
    [validate, "params.tests.0.inputs.0.shape", [Number.NaN], "shape[0] is not a whole number"],
    [validate, "params.tests.0.inputs.0.shape", ["2"], "shape[0] is not a whole number"],
    [
      validate,
      "params.tests.0.inputs.0.shape",
      [2 ** 30, 2 ** 30],
      "shape is not the shape of a tensor that fits",
    ],
    [validate, "params.tests.0.inputs.0.shape", Array(33).fill(1), "at most 32 axes"],
    [validate, "params.tests.0.tolerances.0.absolute", -1, "is not a tolerance of at least 0"],
    [validate, "params.tests.0.tolerances.0.relative", "NaN", "relative is not a finite number"],
    [validate, "params.tests.0.temporaries.0", 2 ** 50, "temporaries[0] is not a whole number"],
    [validate, "params.tests.0.launches.0.dispatch", [1, 1], "dispatch is not three extents"],
    [validate, "params.tests.0.launches.0.arguments.0", { argument: -1 }, "argument is not a whole number"],
    [validate, "params.tests.0.launches.0.arguments.0", { scalar: null }, "scalar is not a finite number"],
    [validate, "params.kernels.0.entry_points.0.code", "wgsl", "code is not a SHA-256 digest"],
    [validate, "params.kernels.0.requires.limits.maxBufferSize", "1", "maxBufferSize is not a finite number"],
    [execute, "params.commands.0.op", "import", "params.commands[0].op is not a command"],
    [execute, "params.commands.4.tensor", {}, "params.commands[4].tensor is not a string"],
    [runModel, "params.runs", 0, "params.runs is not at least 1"],
    [runModel, "params.replace.add_kernel", "fn main() {}", "params.replace.add_kernel is not a SHA-256"],
    [runModel, "call", "", "call is not an id"],
  ])("refuses %o with %s = %o", (message, path, value, expected) => {
    const refused = () => checkCall(withValue(message, path, value));
    expect(refused).toThrow(ProtocolError);
    expect(refused).toThrow(expected);
  });

  it.each([null, 1, "call", [], {}])("refuses %o", (message) => {
    expect(() => checkCall(message)).toThrow(ProtocolError);
    expect(callId(message)).toBeNull();
  });
});
