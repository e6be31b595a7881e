import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { CallContext } from "../engine/engine";
import { DeviceFailure } from "../hal/errors";
import type { CompileProgress, Kernel, Test, TestVerdict } from "../protocol/messages";
import { TestDevice } from "../testing/dawn";
import { addText, floats, kernelOf, variantOf } from "../testing/kernels";
import { validate } from "./validate";

const COUNT = 200;
const EXACT = { absolute: 0, relative: 0 };

let device: TestDevice;
const put = (digest: string, bytes: Parameters<TestDevice["put"]>[1]) => device.put(digest, bytes);
const range = Array.from({ length: COUNT }, (_, i) => i);

function ref(digest: string, values: number[]) {
  return { ...floats(values.length), digest: put(digest, Float32Array.from(values)) };
}

/** a + b; `id` makes its bytes its own. */
function addTest(id: string, change: Partial<Test> = {}): Test {
  const inputs = [ref(`${id}.a`, range), ref("b", range)];
  const outputs = [
    ref(
      "c",
      range.map((i) => 2 * i),
    ),
  ];
  return { id, kernel: "add", inputs, outputs, tolerances: [EXACT], ...change };
}

async function run(
  kernels: Kernel[],
  tests: Test[],
): Promise<{ verdicts: TestVerdict[]; compiled: CompileProgress[] }> {
  const verdicts: TestVerdict[] = [];
  const compiled: CompileProgress[] = [];
  const { signal } = new AbortController();
  const progress: CallContext["progress"] = (message) => {
    if (message.kind === "verdict") verdicts.push(message);
    else if (message.kind === "compile") compiled.push(message);
  };
  const result = await validate(
    { engine: device.engine, id: "", hangSeconds: 60, progress, signal },
    { kernels, tests },
  );
  expect(result.seconds.total).toBeGreaterThan(0);
  return { verdicts, compiled };
}

beforeEach(async () => {
  device = await TestDevice.open();
});

afterEach(() => device.close());

describe("validate on Dawn", () => {
  it("passes a right kernel", async () => {
    const { verdicts, compiled } = await run([kernelOf(addText(COUNT), put)], [addTest("t")]);
    expect(compiled).toMatchObject([{ kernel: "add", done: 1, total: 1 }]);
    expect(verdicts).toMatchObject([
      { id: "t", kernel: "add", variant: "default", verdict: "pass", message: "", error: null },
    ]);
    expect(verdicts[0]?.outputs).toMatchObject([{ total: COUNT, mismatched: 0, first: null }]);
    const { gpu } = verdicts[0]?.seconds ?? {};
    if (device.engine.gpu.timestamps) expect(gpu).toBeGreaterThanOrEqual(0);
    else expect(gpu).toBeNull();
  });

  it("fails a wrong kernel and shows where", async () => {
    const body = "p2[i] = p0[i] + p1[i]; if (i == 7u) { p2[i] = 99.0; }";
    const { verdicts } = await run([kernelOf({ ...addText(COUNT), body }, put)], [addTest("t")]);
    expect(verdicts).toMatchObject([{ verdict: "fail", error: null }]);
    expect(verdicts[0]?.outputs).toMatchObject([
      { total: COUNT, mismatched: 1, nan: 0, first: { index: [7], expected: 14, got: 99 } },
    ]);
    expect(verdicts[0]?.message).toBeTruthy();
  });

  it("fails a kernel that leaves elements out, also where memory is used again", async () => {
    const right = kernelOf(addText(COUNT), put);
    const body = "if (i != 150u) { p2[i] = p0[i] + p1[i]; }";
    const partial = { ...kernelOf({ ...addText(COUNT), name: "partial", body }, put) };
    const tests = [addTest("t1"), addTest("t2", { kernel: "partial" })];
    for (let round = 0; round < 2; round++) {
      const { verdicts } = await run([right, partial], tests);
      expect(verdicts).toMatchObject([
        { id: "t1", verdict: "pass" },
        { id: "t2", verdict: "fail" },
      ]);
      expect(verdicts[1]?.outputs).toMatchObject([
        { mismatched: 1, nan: 1, first: { index: [150], expected: 300, got: "NaN" } },
      ]);
    }
  });

  it("holds each element against its own bound", async () => {
    const body = "p2[i] = p0[i] + p1[i] + 0.5;";
    const off = kernelOf({ ...addText(COUNT), body }, put);
    const bounded = (name: string, special: Record<number, number> = {}) => {
      const bound = ref(
        name,
        range.map((i) => special[i] ?? 0.5),
      );
      return addTest(name, { tolerances: [{ ...EXACT, bound }] });
    };
    const open = Number.POSITIVE_INFINITY;
    const { verdicts } = await run(
      [off],
      [bounded("wide"), bounded("narrow", { 9: 0.25 }), bounded("open", { 5: open, 6: open })],
    );
    expect(verdicts).toMatchObject([
      { id: "wide", verdict: "pass", message: "" },
      { id: "narrow", verdict: "fail" },
      {
        id: "open",
        verdict: "unbounded",
        message: `2 of ${COUNT} elements are unbounded: WGSL promises nothing for them; first at [5]`,
      },
    ]);
    expect(verdicts[1]?.outputs).toMatchObject([
      { mismatched: 1, unbounded: 0, first: { index: [9], bound: 0.25 }, worst: { index: [9] } },
    ]);
    expect(verdicts[2]?.outputs).toMatchObject([{ mismatched: 0, unbounded: 2 }]);
  });

  it("fails rather than calls unbounded, where an element is wrong too", async () => {
    const body = "p2[i] = 0.0;";
    const bound = ref(
      "bound",
      range.map((i) => (i === 3 ? Number.POSITIVE_INFINITY : 0)),
    );
    const test = addTest("t", { tolerances: [{ ...EXACT, bound }] });
    const { verdicts } = await run([kernelOf({ ...addText(COUNT), body }, put)], [test]);
    // The first element is right.
    expect(verdicts).toMatchObject([{ verdict: "fail", outputs: [{ mismatched: COUNT - 2, unbounded: 1 }] }]);
  });

  it("refuses a bound that is not of the output's shape, and names the test", async () => {
    const misfits: [Test["tolerances"][number], string][] = [
      [
        { ...EXACT, bound: ref("short", [1, 2]) },
        "the bound of output 0 of test t is float32[2], not float32[200]",
      ],
      [
        { ...EXACT, bound: { ...ref("c", range), dtype: "int32" } },
        "the bound of output 0 of test t is int32[200], not float32[200]",
      ],
      [
        { ...EXACT, ties: { ...ref("short", [1, 2]), dtype: "int32" } },
        "the ties of output 0 of test t are for an output of integers, it is float32[200]",
      ],
    ];
    for (const [tolerance, message] of misfits) {
      const { verdicts } = await run(
        [kernelOf(addText(COUNT), put)],
        [addTest("t", { tolerances: [tolerance] }), addTest("right")],
      );
      expect(verdicts).toMatchObject([
        { verdict: "error", message, error: { kind: "protocol", test: "t" } },
        { id: "right", verdict: "pass" },
      ]);
    }
  });

  it("takes a bound that does not arrive for an error of its test", async () => {
    const bound = { ...floats(COUNT), digest: "gone" };
    const { verdicts } = await run(
      [kernelOf(addText(COUNT), put)],
      [addTest("t", { tolerances: [{ ...EXACT, bound }] }), addTest("right")],
    );
    expect(verdicts).toMatchObject([
      { id: "t", verdict: "error", error: { kind: "fetch" } },
      { id: "right", verdict: "pass" },
    ]);
  });

  it("gives each of many tests its own verdict, in order", async () => {
    const wrong = ref("wrong", [...range.slice(1), 0]);
    const tests = Array.from({ length: 150 }, (_, i) =>
      addTest(`t${i}`, i % 10 === 3 ? { outputs: [wrong] } : {}),
    );
    const { verdicts } = await run([kernelOf(addText(COUNT), put)], tests);
    expect(verdicts.map(({ id }) => id)).toEqual(tests.map(({ id }) => id));
    expect(verdicts.map(({ verdict }) => verdict)).toEqual(
      tests.map((_, i) => (i % 10 === 3 ? "fail" : "pass")),
    );
  });

  it("leaves nothing behind but cached inputs", async () => {
    const tests = Array.from({ length: 40 }, (_, i) => addTest(`t${i}`));
    await run([kernelOf(addText(COUNT), put)], tests);
    const { live } = device.engine.buffers.statistics;
    // Forty of their own and the one that all share.
    expect(live).toBe(41);
    device.blobs.delete("b");
    await run([kernelOf(addText(COUNT), put)], tests);
    expect(device.engine.buffers.statistics.live).toBe(live);
  });

  it("gives a kernel that writes its input a copy", async () => {
    const body = "p0[i] = p0[i] + 1.0; p2[i] = p0[i] + p1[i];";
    const text = { ...addText(COUNT), body, access: ["write", "read", "write"] as const };
    const plusOne = ref(
      "plusOne",
      range.map((i) => 2 * i + 1),
    );
    const shared = ref("shared", range);
    const tests = ["t1", "t2", "t3"].map((id) =>
      addTest(id, { inputs: [shared, ref("b", range)], outputs: [plusOne] }),
    );
    const { verdicts } = await run([kernelOf(text, put)], tests);
    expect(verdicts.map(({ verdict }) => verdict)).toEqual(["pass", "pass", "pass"]);
  });

  it("keeps an error to its own test", async () => {
    const bad = addTest("bad", { kernel: "broken" });
    const missing = addTest("missing", { inputs: [{ ...floats(COUNT), digest: "gone" }, ref("b", range)] });
    const short = addTest("short", { inputs: [ref("a", range)] });
    const kernels = [
      kernelOf(addText(COUNT), put),
      kernelOf({ ...addText(COUNT), name: "broken", body: "p2[i] = nonsense;" }, put),
    ];
    const { verdicts } = await run(kernels, [addTest("t1"), bad, missing, short, addTest("t2")]);
    const byId = Object.fromEntries(verdicts.map((verdict) => [verdict.id, verdict]));
    expect(byId.t1?.verdict).toBe("pass");
    expect(byId.t2?.verdict).toBe("pass");
    expect(byId.bad).toMatchObject({ verdict: "error", error: { kind: "compile", kernel: "broken" } });
    expect(byId.bad?.error?.diagnostics?.[0]?.source).toContain("nonsense");
    expect(byId.missing).toMatchObject({ verdict: "error", error: { kind: "fetch" } });
    expect(byId.missing?.message).toContain("blob gone could not be fetched");
    expect(byId.short).toMatchObject({ verdict: "error", error: { kind: "protocol" } });
    expect(verdicts).toHaveLength(5);
  });

  it("tells which test the GPU refused, with kernel and types", async () => {
    // Bound for reading and for writing at a time.
    const variant = variantOf(addText(COUNT), put);
    const launches = variant.launches.map((launch) => ({
      ...launch,
      operands: [{ argument: 0 }, { argument: 2 }, { argument: 2 }],
    }));
    const kernels = [
      kernelOf(addText(COUNT), put),
      { kernel: "clash", symbols: [], variants: [{ ...variant, launches }] },
    ];
    const tests = [addTest("t1"), addTest("clash", { kernel: "clash" }), addTest("t2")];
    const { verdicts } = await run(kernels, tests);
    expect(verdicts.map(({ verdict }) => verdict)).toEqual(["pass", "error", "pass"]);
    expect(verdicts[1]?.error).toMatchObject({
      kind: "validation",
      kernel: "clash",
      variant: "default",
      test: "clash",
      arguments: [floats(COUNT), floats(COUNT), floats(COUNT)],
    });
  });

  it("tells verdicts before the last kernel is compiled, and counts kernels over all of the call", async () => {
    const names = ["a", "b", "c", "d", "e"];
    const said: string[] = [];
    const { signal } = new AbortController();
    const progress: CallContext["progress"] = (message) => {
      if (message.kind === "verdict") said.push(`${message.id} ${message.verdict}`);
      else if (message.kind === "compile") said.push(`${message.done} of ${message.total}`);
    };
    const kernels = names.map((name) => kernelOf({ ...addText(COUNT), name }, put));
    const tests = [...names, ...names].map((kernel, i) => addTest(`${kernel}${i}`, { kernel }));
    await validate({ engine: device.engine, id: "", hangSeconds: 60, progress, signal }, { kernels, tests });
    expect(said.slice(0, 6)).toEqual(["1 of 5", "2 of 5", "a0 pass", "b1 pass", "a5 pass", "b6 pass"]);
    expect(said.slice(6, 9)).toEqual(["3 of 5", "4 of 5", "5 of 5"]);
    expect(said.slice(9).sort()).toEqual(["c2", "c7", "d3", "d8", "e4", "e9"].map((id) => `${id} pass`));
  });

  it("says that a kernel is not for this device", async () => {
    const text = { ...addText(COUNT), requires: { features: ["nothing-has-this"] } };
    const { verdicts } = await run([kernelOf(text, put)], [addTest("t")]);
    expect(verdicts).toMatchObject([
      {
        verdict: "unsupported",
        variant: null,
        message: "needs the feature nothing-has-this, which this device lacks",
        error: { kind: "unsupported", kernel: "add" },
      },
    ]);
  });

  it("says that a test is too large for this device", async () => {
    const { maxBufferSize } = device.engine.gpu.device.limits;
    const variant = { ...variantOf(addText(COUNT), put), temporaries: [maxBufferSize + 4] };
    const { verdicts } = await run([{ kernel: "add", symbols: [], variants: [variant] }], [addTest("t")]);
    expect(verdicts).toMatchObject([{ verdict: "unsupported", error: { kind: "unsupported", test: "t" } }]);
  });

  it("makes uniforms and bind groups of kernels that come again once", async () => {
    const { device: gpu } = device.engine.gpu;
    const uniforms = vi.spyOn(gpu, "createBuffer");
    const groups = vi.spyOn(gpu, "createBindGroup");
    const round = () => run([kernelOf(addText(COUNT), put)], [addTest("t1"), addTest("t2")]);
    const made = () => [
      uniforms.mock.calls.filter(([{ usage }]) => usage === GPUBufferUsage.UNIFORM).length,
      groups.mock.calls.length,
    ];
    await round();
    expect(made()).toEqual([1, 2]);
    for (let i = 0; i < 20; i++) await round();
    const [after, bound = 0] = made();
    expect(after).toBe(1);
    expect(bound).toBeLessThan(10);
  });

  it("makes no buffers that a machine cannot hold together", async () => {
    const { maxBufferSize } = device.engine.gpu.device.limits;
    const { live, idle } = device.engine.buffers.statistics;
    const greedy = { ...variantOf(addText(COUNT), put), temporaries: Array(5).fill(maxBufferSize) };
    const kernels = [
      { kernel: "add", symbols: [], variants: [greedy] },
      kernelOf({ ...addText(COUNT), name: "sum" }, put),
    ];
    const huge = { ...floats(maxBufferSize / 4), digest: put("huge", new Uint8Array(4)) };
    const wide = addTest("wide", { kernel: "sum", inputs: Array(5).fill(huge) });
    const { verdicts } = await run(kernels, [addTest("t"), wide, addTest("right", { kernel: "sum" })]);
    const error = {
      kind: "unsupported",
      message: expect.stringContaining("(4 times maxBufferSize) of one call"),
    };
    expect(verdicts).toMatchObject([
      { id: "t", verdict: "unsupported", error },
      { id: "wide", verdict: "unsupported", error },
      { id: "right", verdict: "pass" },
    ]);
    expect(device.engine.buffers.statistics.live).toBeLessThan(live + 10);
    expect(device.engine.buffers.statistics.idle).toBeLessThan(idle + 10);
  });

  it("ends with the device's loss", async () => {
    const running = run([kernelOf(addText(COUNT), put)], [addTest("t1"), addTest("t2")]).catch(
      (cause: unknown) => cause,
    );
    device.close();
    const cause = await running;
    expect(cause).toBeInstanceOf(DeviceFailure);
    expect((cause as DeviceFailure).report).toMatchObject({ kind: "device-lost", lost_reason: "destroyed" });
  });

  it("ends when it is aborted, without a verdict", async () => {
    const controller = new AbortController();
    const reason = new DeviceFailure({ kind: "cancelled", message: "the call was cancelled" });
    const verdicts: unknown[] = [];
    const params = { kernels: [kernelOf(addText(COUNT), put)], tests: [addTest("t")] };
    const progress: CallContext["progress"] = (message) => {
      if (message.kind === "verdict") verdicts.push(message);
    };
    const running = validate(
      { engine: device.engine, id: "", hangSeconds: 60, progress, signal: controller.signal },
      params,
    );
    controller.abort(reason);
    await expect(running).rejects.toBe(reason);
    expect(verdicts).toEqual([]);
    expect((await run(params.kernels, params.tests)).verdicts).toMatchObject([{ verdict: "pass" }]);
  });
});
