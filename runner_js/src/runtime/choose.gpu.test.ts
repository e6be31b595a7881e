import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { CompiledVariant } from "../compiled/generated/model";
import { type ElementwiseText, functionOf, modelOf, type TestModel, tensor } from "../testing/compiled";
import { fault, Models } from "../testing/models";
import { type LoadOptions, load } from "./index";

const models = new Models();
const X = Float32Array.from([1, 2, 3]);
const TIME: LoadOptions = { choose: "time" };

type Expected = CompiledVariant["expected"];

/** y = x + number, by a kernel of two variants: the first, of which a table is wrong, turns in a loop. */
async function doubled(
  expected: [slow: Expected, fast: Expected] = [{ software: 1 }, { software: 2 }],
  kernels: readonly string[] = ["plus"],
): Promise<TestModel> {
  const texts = kernels.map((name, i): ElementwiseText => ({ name, inputs: 1, body: `p0[i] + ${i + 1}.0` }));
  const tensors = [
    tensor("x", ["input", 0]),
    ...kernels.slice(1).map((_, i) => tensor(`t${i}`, ["arena", i, 0])),
    tensor("y", ["output", 0]),
  ];
  const code = kernels.map((_, i) => {
    return { op: "dispatch" as const, kernel: i, operands: [i, i + 1], temporaries: [] };
  });
  const main = functionOf(
    tensors,
    code,
    kernels.slice(1).map(() => 4096),
  );
  const served = await modelOf({ kernels: texts, functions: { main } });
  const { document } = served;
  for (const kernel of document.kernels) {
    const [fast] = kernel.variants as [CompiledVariant];
    const [entry] = fast.entry_points as [CompiledVariant["entry_points"][number]];
    const text = document.wgsl[entry.wgsl] as string;
    const turns =
      "var t = p0[i];\n  for (var k = 0; k < 300000; k++) { t = fract(t * 1.7 + 0.3); }\n  out[i] = select(0.0, 1.0, t > 9.0) + ";
    document.wgsl.push(text.replace("out[i] = ", turns));
    const slow = { ...entry, file: "slow.wgsl", wgsl: document.wgsl.length - 1 };
    kernel.variants = [
      { ...fast, name: "slow", entry_points: [slow], ...(expected[0] ? { expected: expected[0] } : {}) },
      { ...fast, name: "fast", ...(expected[1] ? { expected: expected[1] } : {}) },
    ];
  }
  return served;
}

/** A browser's Cache API, by address; `change` of its methods. */
function storage(change: Partial<Cache> = {}, open: () => Promise<unknown> = async () => null) {
  const kept = new Map<string, string>();
  const cache = {
    match: async (key: string) => (kept.has(key) ? new Response(kept.get(key)) : undefined),
    put: async (key: string, from: Response) => void kept.set(key, await from.text()),
    delete: async (key: string) => kept.delete(key),
    ...change,
  };
  vi.stubGlobal("caches", { open: async () => (await open()) ?? cache });
  return kept;
}

/** Texts that the GPU compiles from now on. */
function compiled(): string[] {
  const { device } = models.here.gpu;
  const make = device.createShaderModule.bind(device);
  const found: string[] = [];
  vi.spyOn(device, "createShaderModule").mockImplementation((descriptor) => {
    found.push(descriptor.code.includes("fract") ? "slow" : "fast");
    return make(descriptor);
  });
  return found;
}

/** No second is over before `end` says so: a busy machine may take longer for what is done in a moment elsewhere. */
function endless(): { end: () => void } {
  const start = globalThis.setTimeout;
  const waiting: (() => void)[] = [];
  vi.spyOn(globalThis, "setTimeout").mockImplementation(((call: () => void, after?: number) => {
    if (after !== 1000) return start(call, after);
    waiting.push(call);
    return 0;
  }) as typeof setTimeout);
  const end = () => {
    for (const call of waiting.splice(0)) call();
  };
  return { end };
}

let clock: { end: () => void };
beforeEach(() => {
  clock = endless();
});
afterEach(() => vi.restoreAllMocks());

describe("choose", () => {
  it("is by the tables where nothing is said, and nothing is timed", async () => {
    const texts = compiled();
    const model = await models.open(await doubled());
    expect(model.variants).toEqual({ plus: "slow" });
    expect(texts).toEqual(["slow"]);
  });

  it("takes what is the fastest where no table is of such a device, and remembers it", async () => {
    const kept = storage();
    const served = await doubled();
    const model = await models.open(served, TIME);
    expect(model.variants).toEqual({ plus: "fast" });
    expect((await model.run({ x: X })).y).toEqual(Float32Array.from([2, 3, 4]));
    await vi.waitFor(() => expect(kept.size).toBe(1), { timeout: 60_000 });
    const texts = compiled();
    const again = await models.open(served, TIME);
    expect(again.variants).toEqual({ plus: "fast" });
    expect(texts).toEqual(["fast"]);
    // Of another version of the model nothing is known.
    served.document.wgsl[0] += "// changed";
    await models.open(served, TIME);
    expect(texts.slice(1).sort()).toEqual(["fast", "slow"]);
  });

  it.each([
    [
      "a table is of this device",
      [
        { swiftshader: 1, software: 1 },
        { swiftshader: 2, software: 2 },
      ],
    ],
    ["a variant is not one of those that compute the same", [null, { software: 2 }]],
    ["nothing is expected of any", [null, null]],
  ] as [string, [Expected, Expected]][])("times nothing where %s", async (_, expected) => {
    storage();
    const texts = compiled();
    const model = await models.open(await doubled(expected), TIME);
    expect(model.variants).toEqual({ plus: "slow" });
    expect(texts).toEqual(["slow"]);
  });

  it("does not hold up a load for long: kernels that are left have their turn at the next one", async () => {
    const kept = storage();
    const served = await doubled(undefined, ["one", "two", "three"]);
    const { device } = models.here.gpu;
    // The faster variant of the second kernel never compiles.
    const shader = device.createShaderModule.bind(device);
    const modules = new WeakSet<GPUShaderModule>();
    const watched = vi.spyOn(device, "createShaderModule").mockImplementation((descriptor) => {
      const made = shader(descriptor);
      if (descriptor.code.includes("p0[i] + 2.0") && !descriptor.code.includes("fract")) modules.add(made);
      return made;
    });
    const make = device.createComputePipelineAsync.bind(device);
    const hanging = vi.spyOn(device, "createComputePipelineAsync").mockImplementation((descriptor) => {
      if (!modules.has(descriptor.compute.module)) return make(descriptor);
      clock.end();
      return new Promise(() => {});
    });
    const first = await models.open(served, TIME);
    expect(first.variants).toEqual({ one: "fast", two: "slow", three: "slow" });
    await vi.waitFor(() => expect([...kept.values()].join()).toContain('{"one":"fast","two":"slow"}'), {
      timeout: 60_000,
    });
    hanging.mockRestore();
    watched.mockRestore();
    const texts = compiled();
    const second = await models.open(served, TIME);
    expect(second.variants).toEqual({ one: "fast", two: "slow", three: "fast" });
    expect(texts.sort()).toEqual(["fast", "fast", "slow", "slow"]);
    expect((await second.run({ x: X })).y).toEqual(Float32Array.from([7, 8, 9]));
  });

  const said = (variants: unknown) => JSON.stringify({ format: "tapml.choices/1", variants });
  it.each([
    ["no JSON", "<!doctype html>"],
    ["null", "null"],
    ["another format", said({ plus: "slow" }).replace("/1", "/2")],
    ["a list", said(["slow"])],
    ["numbers", said({ plus: 0 })],
    ["a variant that there is not", said({ plus: "__proto__" })],
    ["another kernel", said({ constructor: "slow", other: "slow" })],
    ["a megabyte too much", said({ plus: "slow", more: "x".repeat(1 << 20) })],
  ])("takes nothing from a storage that holds %s", async (_, text) => {
    const kept = storage({ match: async () => new Response(text) });
    const model = await models.open(await doubled(), TIME);
    expect(model.variants).toEqual({ plus: "fast" });
    await vi.waitFor(() => expect([...kept.values()].join()).toContain('"plus":"fast"'), { timeout: 60_000 });
  });

  const refused = () => Promise.reject(new DOMException("no", "SecurityError"));
  it.each([
    ["refuses to be opened", {}, refused],
    ["refuses to be read", { match: refused }, undefined],
    ["is full", { put: refused }, undefined],
    ["never answers", { match: () => new Promise<never>(() => queueMicrotask(clock.end)) }, undefined],
  ] as [string, Partial<Cache>, (() => Promise<unknown>) | undefined][])(
    "loads with a storage that %s",
    async (_, change, open) => {
      storage(change, open);
      const model = await models.open(await doubled(), TIME);
      expect((await model.run({ x: X })).y).toEqual(Float32Array.from([2, 3, 4]));
      expect(model.variants).toEqual({ plus: "fast" });
    },
  );

  it("looks at no storage where there is none to be used", async () => {
    const kept = storage();
    await models.open(await doubled(), { ...TIME, cache: false });
    vi.stubGlobal("caches", undefined);
    const model = await models.open(await doubled(), TIME);
    expect(model.variants).toEqual({ plus: "fast" });
    expect(kept.size).toBe(0);
  });

  it("takes another variant than one that does not compile, and none that is too large", async () => {
    const served = await doubled();
    const slow = served.document.wgsl.length - 1;
    served.document.wgsl[slow] = "fn broken(";
    expect((await models.open(served, TIME)).variants).toEqual({ plus: "fast" });
    const large = await doubled();
    for (const { symbols } of large.document.kernels) for (const one of symbols) one.maximum = 1000;
    large.document.kernels[0]?.variants.forEach((variant) => {
      variant.temporaries = [2 ** 28];
    });
    expect(await fault(models.open(large, TIME))).toMatch(/temporar/);
  });

  it("ends where nobody waits any more", async () => {
    const stop = new AbortController();
    const served = await doubled();
    const { device } = models.here.gpu;
    const make = device.createShaderModule.bind(device);
    vi.spyOn(device, "createShaderModule").mockImplementation((descriptor) => {
      stop.abort(new Error("enough"));
      return make(descriptor);
    });
    await expect(models.open(served, { ...TIME, signal: stop.signal })).rejects.toThrow("enough");
  });

  it("takes a module of its own, which a page may have forgotten", async () => {
    vi.doMock("./by_time", () => {
      throw new Error("404");
    });
    try {
      const served = await doubled();
      expect(await fault(models.open(served, TIME))).toMatch(
        /^download: choose: time takes tapml-timing.js, which does not load: put it beside tapml-runtime.js/,
      );
      expect((await models.open(served)).variants).toEqual({ plus: "slow" });
    } finally {
      vi.doUnmock("./by_time");
    }
  });

  it("is one of two words", async () => {
    const choose = "fast" as "time";
    expect(await fault(load("http://models.test/little.tapml/", { choose }))).toBe(
      "input: choose is fast: give table or time",
    );
  });
});
