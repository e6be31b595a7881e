import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { DeviceFailure } from "../hal/errors";
import type { Command, ErrorReport, Kernel } from "../protocol/messages";
import { TestDevice } from "../testing/dawn";
import * as kernels from "../testing/kernels";
import { addText, allocate, call, download, floats, kernelOf, load } from "../testing/kernels";

let device: TestDevice;
const put = (digest: string, bytes: Parameters<TestDevice["put"]>[1]) => device.put(digest, bytes);
const constant = (count: number, value: number) => Array<number>(count).fill(value);

async function reportOf(promise: Promise<unknown>): Promise<ErrorReport> {
  const cause = await promise.catch((thrown: unknown) => thrown);
  if (!(cause instanceof DeviceFailure)) throw new Error(`not a DeviceFailure: ${cause}`);
  return cause.report;
}

const failing = (...commands: Command[]) => reportOf(device.execute(commands));

/** p0 += 1, so that calls that were done can be counted. */
function stepText() {
  return { name: "step", access: ["write"] as const, body: "p0[i] = p0[i] + 1.0;", elements: 16 };
}

async function prepare(): Promise<void> {
  const zeros = { ...floats(16), digest: put("zeros", new Float32Array(16)) };
  await device.execute([
    load(kernelOf(stepText(), put), kernelOf(addText(16), put)),
    kernels.upload("counter", zeros),
    kernels.upload("a", zeros),
    allocate("c", 16),
  ]);
}

const steps = (count: number) => Array.from({ length: count }, () => call("step", "counter"));
/** Bound for reading and for writing at a time, which WebGPU refuses. */
const bad = call("add", "a", "c", "c");

describe("errors of execute on Dawn", () => {
  beforeEach(async () => {
    device = await TestDevice.open();
    await prepare();
  });

  afterEach(() => device.close());

  it.each([0, 3, 511, 512, 700])("tells which of many calls was refused (number %i)", async (place) => {
    const report = await failing(...steps(place), bad, ...steps(50));
    expect(report).toMatchObject({
      kind: "validation",
      command: place,
      kernel: "add",
      variant: "default",
      arguments: [floats(16), floats(16), floats(16)],
    });
    expect(report.message).toMatch(/^GPU validation error: /);
    expect(report.gpu_message).toBeTruthy();
    // What was before is done, once, and nothing after it.
    expect(await device.read("counter")).toEqual([constant(16, place)]);
  });

  it("leaves the device as good as before", async () => {
    await failing(bad);
    await device.execute([...steps(2), call("add", "counter", "counter", "c")]);
    expect(await device.read("c")).toEqual([constant(16, 4)]);
  });

  it("tells the first of two errors, where the second is found without the GPU", async () => {
    const report = await failing(...steps(4), bad, call("nope", "a"));
    expect(report).toMatchObject({ kind: "validation", command: 4, done: 4, kernel: "add" });
    expect(await device.read("counter")).toEqual([constant(16, 4)]);
  });

  it("tells which call was refused where calls are timed, too", async ({ skip }) => {
    if (!device.engine.gpu.timestamps) skip();
    const report = await reportOf(device.execute([...steps(3), bad], { timing: true }));
    expect(report).toMatchObject({ kind: "validation", command: 3, kernel: "add" });
    expect(await device.read("counter")).toEqual([constant(16, 3)]);
  });

  it("names an unknown kernel, and does what was before", async () => {
    expect(await failing(...steps(3), call("nope", "a"), ...steps(1))).toEqual({
      kind: "protocol",
      message: "there is no kernel nope in a library l on this device",
      kernel: "nope",
      command: 3,
      done: 3,
    });
    expect(await device.read("counter")).toEqual([constant(16, 3)]);
  });

  it("names an unknown library", async () => {
    const unknown: Command = { op: "call", library: "other", kernel: "add", arguments: ["a", "a", "c"] };
    expect((await failing(unknown)).message).toBe("there is no kernel add in a library other on this device");
    expect((await failing({ op: "unload", library: "l" }, ...steps(1))).command).toBe(1);
  });

  it("names an unknown tensor before anything runs", async () => {
    expect(await failing(...steps(3), call("add", "a", "nope", "c"))).toEqual({
      kind: "protocol",
      message: "there is no tensor nope on this device (command 3, call)",
      command: 3,
      done: 0,
    });
    expect(await device.read("counter")).toEqual([constant(16, 0)]);
  });

  it("refuses a call with too few arguments", async () => {
    expect(await failing(call("add", "a", "c"))).toMatchObject({
      kind: "protocol",
      message: "kernel add takes 3 arguments, the call gives 2",
      kernel: "add",
      command: 0,
    });
  });

  it("says that a tensor is larger than a buffer may be, and does what was before", async () => {
    const { maxBufferSize } = device.engine.gpu.device.limits;
    const report = await failing(...steps(2), allocate("huge", maxBufferSize / 4 + 1), ...steps(1));
    expect(report).toMatchObject({ kind: "out-of-memory", command: 2 });
    expect(report.message).toContain("this device allows maxBufferSize");
    expect(await device.read("counter")).toEqual([constant(16, 2)]);
    expect(device.engine.tensors.typeOf("huge")).toBeUndefined();
  });

  it("says the same of an upload", async () => {
    const { maxBufferSize } = device.engine.gpu.device.limits;
    const type = { dtype: "uint8" as const, shape: [maxBufferSize + 4] };
    const upload = kernels.upload("huge", { ...type, digest: put("huge", new Uint8Array(4)) });
    const report = await failing(...steps(2), upload);
    expect(report).toMatchObject({ kind: "out-of-memory", command: 2 });
  });

  it("says which upload has no bytes", async () => {
    const upload = kernels.upload("x", { ...floats(4), digest: "missing" });
    expect(await failing(...steps(2), upload)).toMatchObject({
      kind: "fetch",
      message: "blob missing could not be fetched: HTTP 404, no blob missing",
      command: 2,
    });
  });

  it("stops where the call is aborted, and goes on with the next", async () => {
    const controller = new AbortController();
    const reason = new DeviceFailure({ kind: "cancelled", message: "the call was cancelled" });
    const running = device.execute(steps(3000), { signal: controller.signal });
    controller.abort(reason);
    await expect(running).rejects.toBe(reason);
    const [before] = await device.read("counter");
    await device.execute(steps(1));
    expect(await device.read("counter")).toEqual([constant(16, (before?.[0] as number) + 1)]);
  });

  it("says that the device was lost while it worked", async () => {
    const running = failing(...steps(3000), download("counter"));
    await new Promise((resolve) => setTimeout(resolve, 5));
    device.engine.gpu.device.destroy();
    expect(await running).toMatchObject({ kind: "device-lost", lost_reason: "destroyed" });
    expect(await failing(...steps(1))).toMatchObject({ kind: "device-lost" });
    await device.engine.gpu.whenLost;
  });
});

describe("kernels on Dawn", () => {
  afterEach(() => device.close());

  function invocations(variant: string, count: number) {
    const requires = {
      limits: { maxComputeInvocationsPerWorkgroup: count },
    };
    return kernels.variantOf({ ...addText(2000), variant, invocations: count, requires }, put);
  }

  const choice = (...variants: Kernel["variants"]): Kernel => ({ kernel: "add", symbols: [], variants });

  async function added(kernel: Kernel) {
    const values = {
      ...floats(2000),
      digest: put(
        "values",
        Float32Array.from({ length: 2000 }, (_, i) => i),
      ),
    };
    const { result, floats: got } = await device.execute([
      load(kernel),
      kernels.upload("a", values),
      allocate("c", 2000),
      call("add", "a", "a", "c"),
      download("c"),
    ]);
    expect(got).toEqual([Array.from({ length: 2000 }, (_, i) => 2 * i)]);
    return result.variants;
  }

  it("takes the variant for 256 invocations on a device that has no more", async () => {
    device = await TestDevice.open({ maxComputeInvocationsPerWorkgroup: 256 });
    expect(await added(choice(invocations("large", 1024), invocations("small", 256)))).toEqual({
      "l/add": "small",
    });
  });

  it("takes the variant for 1024 invocations on a device that has them", async ({ skip }) => {
    device = await TestDevice.open();
    if (device.engine.gpu.device.limits.maxComputeInvocationsPerWorkgroup < 1024) skip();
    expect(await added(choice(invocations("large", 1024), invocations("small", 256)))).toEqual({
      "l/add": "large",
    });
  });

  it("says what the least demanding variant lacks, where none fits", async () => {
    device = await TestDevice.open({ maxComputeInvocationsPerWorkgroup: 256 });
    const kernel = choice(invocations("huge", 4096), invocations("large", 2048));
    const report = await failing(allocate("c", 1), load(kernel));
    expect(report).toMatchObject({ kind: "unsupported", kernel: "add", command: 1 });
    expect(report.message).toMatch(
      /variant, large, needs maxComputeInvocationsPerWorkgroup 2048, this device allows 256$/,
    );
    // Kernels are compiled before anything runs.
    expect(device.engine.tensors.typeOf("c")).toBeUndefined();
  });

  it("points at what is wrong in WGSL", async () => {
    device = await TestDevice.open();
    const body = "let total = p0[i] +\n    missing_name;\n  p2[i] = total;";
    const report = await failing(allocate("c", 1), load(kernelOf({ ...addText(4), body }, put)));
    expect(report).toMatchObject({ kind: "compile", kernel: "add", variant: "default", command: 1 });
    const [diagnostic] = report.diagnostics ?? [];
    const text = new TextDecoder().decode(device.blobs.get("add.default.wgsl")).split("\n");
    const line = text.findIndex((source) => source.includes("missing_name")) + 1;
    expect(diagnostic).toMatchObject({
      severity: "error",
      file: "add.wgsl",
      line,
      column: 5,
      source: "    missing_name;",
    });
    expect(diagnostic?.message).toContain("missing_name");
    expect(report.message).toMatch(new RegExp(`^add\\.wgsl:${line}:5: .*missing_name`));
  });

  it("says what does not fit where the text itself is right", async () => {
    device = await TestDevice.open();
    const variant = kernels.variantOf(addText(4), put);
    const [entry] = variant.entry_points;
    if (!entry) throw new Error("no entry point");
    const launches = variant.launches.map((launch) => ({ ...launch, entry_point: "other_kernel" }));
    const entry_points = [{ ...entry, name: "other_kernel" }];
    const report = await failing(load(choice({ ...variant, entry_points, launches })));
    expect(report).toMatchObject({ kind: "compile", kernel: "add", diagnostics: [], command: 0 });
    expect(report.message).toMatch(/^add\.wgsl: .*other_kernel/);
  });

  it("compiles again what could not be fetched, once it is there", async () => {
    device = await TestDevice.open();
    const kernel = kernelOf(addText(2000), put);
    const code = device.blobs.get("add.default.wgsl") as Uint8Array<ArrayBuffer>;
    device.blobs.delete("add.default.wgsl");
    expect(await failing(load(kernel))).toMatchObject({ kind: "fetch", kernel: "add", command: 0 });
    device.blobs.set("add.default.wgsl", code);
    expect(await added(kernel)).toEqual({ "l/add": "default" });
  });
});
