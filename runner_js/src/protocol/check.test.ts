import { describe, expect, it } from "vitest";
import { callId, checkCall, checkCancel, checkHelloAck, ProtocolError } from "./check";
import type { Call } from "./messages";

const DIGEST = "0123456789abcdef".repeat(4);
const ref = { dtype: "float32", shape: [2, 3], digest: DIGEST };
const launch = {
  entry_point: "add_kernel",
  operands: [{ argument: 0 }, { temporary: 0 }],
  uniforms: [{ name: "scale", dtype: "float32", value: 2.5 }],
  grid: [["ceildiv", "n", 64], 2, 3],
};
const kernel = {
  kernel: "add",
  symbols: [{ name: "n", minimum: 1, maximum: 4096 }],
  variants: [
    {
      name: "256",
      requires: { features: ["shader-f16"], limits: { maxBufferSize: 1024 } },
      entry_points: [
        {
          name: "add_kernel",
          file: "add.wgsl",
          code: DIGEST,
          bindings: [{ binding: 0, access: "read_write" }],
        },
      ],
      launches: [launch],
      temporaries: [4096],
    },
  ],
};
const test = {
  id: "n1.s0",
  kernel: "add",
  sizes: { n: 6 },
  inputs: [ref],
  outputs: [ref],
  tolerances: [{ absolute: 1e-5, relative: 0 }],
};
const validate = {
  call: "c1",
  method: "validate",
  hang_seconds: 30,
  params: { kernels: [kernel], tests: [test] },
};
const execute = {
  call: "c2",
  method: "execute",
  hang_seconds: 30,
  params: {
    timing: false,
    commands: [
      { op: "load", library: "l", kernels: [kernel] },
      { op: "upload", tensor: "a", ...ref },
      { op: "allocate", tensor: "b", dtype: "int8", shape: [] },
      { op: "view", tensor: "v", of: "a", shape: [6] },
      { op: "copy", tensor: "v", of: "a" },
      { op: "call", library: "l", kernel: "add", arguments: ["a", "b"] },
      { op: "download", tensor: "b" },
      { op: "free", tensors: ["b"] },
      { op: "unload", library: "l" },
      { op: "free_prefix", prefix: "step1." },
    ],
  },
};
const runModel = {
  call: "c3",
  method: "run_model",
  hang_seconds: 30,
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
  it.each([validate, execute, runModel, { call: "c4", method: "ping", hang_seconds: 30, params: {} }])(
    "accepts $method",
    (message) => {
      expect(checkCall(message)).toEqual(message as unknown as Call);
    },
  );

  it.each<[object, string, unknown, string]>([
    [validate, "method", "eval", 'value of tag "method" must be in oneOf'],
    [validate, "hang_seconds", 0, "hang_seconds must be > 0"],
    [validate, "params", null, "params must be object"],
    [validate, "params.extra", 1, "params must NOT have additional properties: extra"],
    [validate, "params.tests", "many", "params.tests must be array"],
    [validate, "params.tests.0.id", 7, "params.tests[0].id must be string"],
    [
      validate,
      "params.tests.0.inputs.0.digest",
      "../../etc/passwd",
      "params.tests[0].inputs[0].digest must match",
    ],
    [validate, "params.tests.0.inputs.0.digest", DIGEST.toUpperCase(), "digest must match pattern"],
    [validate, "params.tests.0.inputs.0.digest", `${DIGEST}\n`, "digest must match pattern"],
    [validate, "params.tests.0.inputs.0.dtype", "int64", "dtype must be equal to one of the allowed values"],
    [validate, "params.tests.0.inputs.0.shape", [-1], "shape[0] must be >= 0"],
    [validate, "params.tests.0.inputs.0.shape", [1.5], "shape[0] must be integer"],
    [validate, "params.tests.0.inputs.0.shape", [Number.NaN], "shape[0] must be integer"],
    [validate, "params.tests.0.inputs.0.shape", ["2"], "shape[0] must be integer"],
    [
      validate,
      "params.tests.0.inputs.0.shape",
      [2 ** 30, 2 ** 30],
      "must be the shape of a tensor that fits",
    ],
    [validate, "params.tests.0.inputs.0.shape", Array(33).fill(1), "must NOT have more than 32 items"],
    [validate, "params.tests.0.tolerances.0.absolute", -1, "absolute must be >= 0"],
    [validate, "params.tests.0.tolerances.0.relative", "NaN", "relative must be number"],
    [validate, "params.kernels.0.variants", [], "variants must NOT have fewer than 1 items"],
    [validate, "params.kernels.0.symbols.0.name", "1n", "name must match pattern"],
    [validate, "params.tests.0.sizes.n", -1, "sizes.n must be >= 0"],
    [validate, "params.kernels.0.variants.0.temporaries.0", null, "temporaries[0] must be integer"],
    [validate, "params.kernels.0.variants.0.launches.0.grid", [1, 1], "must NOT have fewer than 3 items"],
    [
      validate,
      "params.kernels.0.variants.0.launches.0.operands.0",
      { argument: -1 },
      "argument must be >= 0",
    ],
    [validate, "params.kernels.0.variants.0.launches.0.operands.0", { scalar: null }, "must have required"],
    [validate, "params.kernels.0.variants.0.entry_points.0.code", "wgsl", "code must match pattern"],
    [
      validate,
      "params.kernels.0.variants.0.requires.limits.maxBufferSize",
      "1",
      "maxBufferSize must be number",
    ],
    [execute, "params.commands.0.op", "import", 'params.commands[0] value of tag "op" must be in oneOf'],
    [execute, "params.commands.6.tensor", {}, "params.commands[6].tensor must be string"],
    [execute, "params.commands.2.shape", [2 ** 30, 2 ** 30], "params.commands[2].shape must be the shape"],
    [runModel, "params.runs", 0, "params.runs must be >= 1"],
    [runModel, "params.replace.add_kernel", "fn main() {}", "params.replace.add_kernel must match pattern"],
    [runModel, "call", "", "call must NOT have fewer than 1 characters"],
  ])("refuses %o with %s = %o", (message, path, value, expected) => {
    const refused = () => checkCall(withValue(message, path, value));
    expect(refused).toThrow(ProtocolError);
    expect(refused).toThrow(expected);
  });

  it.each([null, 1, "call", [], {}])("refuses %o", (message) => {
    expect(() => checkCall(message)).toThrow(ProtocolError);
    expect(callId(message)).toBeNull();
  });

  it("takes a large call", () => {
    const tests = Array.from({ length: 2000 }, (_, i) => ({ ...test, id: `n${i}` }));
    expect(checkCall(withValue(validate, "params.tests", tests)).method).toBe("validate");
  });
});

describe("checkHelloAck", () => {
  it("takes a welcome and a refusal", () => {
    const welcome = { device: "d", session: "s", calls: { c1: 3 } };
    expect(checkHelloAck(welcome)).toEqual(welcome);
    expect(checkHelloAck({ error: "reload the page" })).toEqual({ error: "reload the page" });
    expect(() => checkHelloAck({ device: "d" })).toThrow(ProtocolError);
  });
});

describe("checkCancel", () => {
  it("wants a call", () => {
    expect(checkCancel({ call: "c" })).toEqual({ call: "c" });
    expect(() => checkCancel({})).toThrow("must have required property 'call'");
  });
});
