import { describe, expect, it, vi } from "vitest";
import { Gpu } from "../hal/gpu";
import { without } from "../profiles/adapters";
import { changed } from "../profiles/profiles";
import { ADD, COUNTER, modelOf, range } from "../testing/compiled";
import { countedGpu } from "../testing/gpus";
import { fault, Models } from "../testing/models";
import { load } from "./index";

const models = new Models();

describe("loading", () => {
  it("fetches a damaged shard once more", async () => {
    const served = await modelOf(ADD, 1024);
    const [first] = [...served.files.keys()];
    let damaged = 0;
    served.change = (path, bytes) => (path === first && !damaged++ ? bytes.map((byte) => byte ^ 1) : bytes);
    const told: number[] = [];
    const model = await models.open(served, { onProgress: ({ bytes }) => told.push(bytes) });
    expect(served.asked.filter((path) => path === first)).toHaveLength(2);
    expect(told.at(-1)).toBe(4000);
    expect((await model.run({ x: range(1000) })).y).toEqual(range(1000, 3));
    model.dispose();
  });

  it("does not believe what the browser's cache has", async () => {
    const kept = new Map<string, Uint8Array<ArrayBuffer>>();
    const cache = {
      match: async (key: string) => (kept.has(key) ? new Response(kept.get(key)) : undefined),
      put: async (key: string, from: Response) =>
        void kept.set(key, new Uint8Array(await from.arrayBuffer())),
      delete: async (key: string) => kept.delete(key),
    };
    vi.stubGlobal("caches", { open: async () => cache });
    const served = await modelOf(ADD, 1024);
    (await models.open(served)).dispose();
    const right = new Map(kept);
    const [damaged = ""] = kept.keys();
    kept.set(
      damaged,
      (kept.get(damaged) ?? new Uint8Array()).map((byte) => byte ^ 1),
    );
    served.asked.length = 0;
    const model = await models.open(served);
    expect(served.asked).toEqual(["model.json", `weights/${damaged.slice(-64)}.bin`]);
    expect((await model.run({ x: range(1000) })).y).toEqual(range(1000, 3));
    expect(kept).toEqual(right);
    // Where the server has no other bytes either, the digest is named.
    kept.set(damaged, new Uint8Array(1024));
    served.change = (path, bytes) =>
      path.includes(damaged.slice(-64)) ? bytes.map((byte) => byte ^ 1) : bytes;
    expect(await fault(models.open(served))).toContain(`(sha256 ${damaged.slice(-64)}), fetched twice,`);
    expect(kept.has(damaged)).toBe(false);
  });

  it.each([
    [
      "damaged",
      (bytes: Uint8Array<ArrayBuffer>) => bytes.map((byte) => byte ^ 1),
      "has other bytes than its digest says",
    ],
    ["cut off", (bytes: Uint8Array<ArrayBuffer>) => bytes.slice(0, 100), "has 100 of 1024 bytes"],
    [
      "too long",
      (bytes: Uint8Array<ArrayBuffer>) => new Uint8Array([...bytes, 0]),
      "has more than 1024 bytes",
    ],
    ["not there", () => Promise.reject(new TypeError("no network")), "could not be fetched (no network)"],
  ])("names the digest of a shard that is %s", async (_, change, what) => {
    const served = await modelOf(ADD, 1024);
    const [first = ""] = [...served.files.keys()];
    served.change = (path, bytes) => (path === first ? change(bytes) : bytes);
    const found = await fault(models.open(served));
    expect(found).toContain(`download: ${first} (sha256 ${first.slice(8, -4)}), fetched twice,`);
    expect(found).toContain(what);
  });

  it.each([
    ["nothing", "", "is neither the JSON nor the single file of a model"],
    ["a page", "<!doctype html>", "is neither the JSON nor the single file of a model"],
    ["another document", '{"format": "tapml.suite/7"}', "model"],
    ["a list", "[]", "model"],
    ["a file that is cut off", "TAPMLM1\n\u0007\u0007\u0000\u0000\u0000\u0000\u0000\u0000{", "is cut off"],
  ])("says of %s that it is no model", async (_, body, what) => {
    const fetch = async () => new Response(body);
    const found = await fault(load("http://models.test/x.tapml", { device: models.here.gpu, fetch }));
    expect(found).toMatch(/^not-a-model: http:\/\/models.test\/x.tapml/);
    expect(found).toContain(what);
  });

  it("says what the server says where there is nothing", async () => {
    const fetch = async () => new Response("", { status: 404 });
    const found = await fault(load("http://models.test/x.tapml/", { device: models.here.gpu, fetch }));
    expect(found).toBe(
      "download: http://models.test/x.tapml/model.json gives HTTP 404: check the address of the model",
    );
  });

  it("does not wait for the cache, which the next one takes its weights from", async () => {
    const kept = new Map<string, ArrayBuffer>();
    let room = () => {};
    const whenRoom = new Promise<void>((resolve) => {
      room = resolve;
    });
    const cache = {
      match: async (key: string) => kept.has(key) && new Response(kept.get(key)),
      put: async (key: string, response: Response) => {
        await whenRoom;
        kept.set(key, await response.arrayBuffer());
      },
    };
    vi.stubGlobal("caches", { open: async () => cache });
    const served = await modelOf(ADD, 1024);
    await models.open(served);
    expect(kept.size).toBe(0);
    room();
    await vi.waitFor(() => expect(kept.size).toBe(4), { timeout: 60_000 });
    served.asked.length = 0;
    const again = await models.open(served);
    expect(served.asked).toEqual(["model.json"]);
    expect((await again.run({ x: range(3) })).y).toEqual(range(3, 3));
  });

  it("is aborted in the middle of a download", async () => {
    const served = await modelOf(ADD, 1024);
    const stop = new AbortController();
    served.change = (path, bytes) => {
      if (path !== "model.json") stop.abort(new Error("enough"));
      return bytes;
    };
    await expect(models.open(served, { signal: stop.signal })).rejects.toThrow("enough");
  });

  it("is aborted in the middle of compiling", async () => {
    const stop = new AbortController();
    const compile = vi.spyOn(models.here.gpu.device, "createComputePipelineAsync");
    compile.mockImplementation(() => {
      stop.abort(new Error("enough"));
      return new Promise(() => {});
    });
    await expect(models.of(ADD, { signal: stop.signal })).rejects.toThrow("enough");
  });

  it("names the kernel that does not compile", async () => {
    const served = await modelOf(ADD);
    served.document.wgsl[1] = (served.document.wgsl[1] ?? "").replace("2.0", "nothing");
    expect(await fault(models.open(served))).toMatch(
      /^compile: kernel double: .*double.wgsl:\d+:\d+: unresolved value/s,
    );
  });

  it("names the bytes that the budget has not", async () => {
    const found = await fault(models.of(ADD, { memory: 5000 }));
    expect(found).toContain("memory: little needs 8 kB (8000 bytes) of GPU memory, the budget is 5 kB");
    // A model that was not loaded leaves the budget as it was.
    (await models.of(ADD)).dispose();
  });

  it("says where the GPU has no memory", async () => {
    vi.spyOn(models.here.gpu.device, "popErrorScope").mockResolvedValue(new GPUOutOfMemoryError("none left"));
    expect(await fault(models.of(ADD))).toMatch(/^memory: the GPU has no memory/);
  });

  it("refuses or warns of kernels that are not validated here", async () => {
    const served = await modelOf(ADD);
    const mistaken = await fault(models.open(served, { unvalidated: "refused" as "refuse" }));
    expect(mistaken).toBe("input: unvalidated is refused: give refuse, warn or ignore");
    const expected = "2 of 2 kernels, add, double, are not validated on node";
    expect(await fault(models.open(served, { unvalidated: "refuse" }))).toContain(`unvalidated: ${expected}`);
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    (await models.open(served, { unvalidated: "warn" })).dispose();
    expect(warn).toHaveBeenCalledExactlyOnceWith(expect.stringContaining(expected));
    const adapter = { vendor: "", architecture: "", device: "", description: "" };
    const device = { name: "node-dawn 0.6.2", runtime: "node", user_agent: "", adapter };
    served.document.validation.push({ device, kernels: { add: "pass", double: "pass" } });
    (await models.open(served, { unvalidated: "refuse" })).dispose();
    served.document.validation.push({ device, kernels: { double: "fail" } });
    expect(await fault(models.open(served, { unvalidated: "refuse" }))).toContain(
      "1 of 2 kernels, double, failed when they were validated on node: what the model gives is not to be trusted",
    );
  });

  it("says what a device lacked that kernels were validated on, and what this one lacks", async () => {
    const half = { features: ["shader-f16"], limits: {} };
    const served = await modelOf({
      ...ADD,
      kernels: (ADD.kernels ?? []).map((one) => ({ ...one, requires: half })),
    });
    const adapter = { vendor: "", architecture: "", device: "", description: "" };
    const device = { name: "node-dawn 0.6.2", runtime: "node", user_agent: "", adapter };
    served.document.validation.push({ device, kernels: { add: "unsupported", double: "unsupported" } });
    const { gpu } = await countedGpu();
    // Whatever the GPU of the tests has.
    const { capabilities } = gpu;
    const rich = new Gpu(gpu.device, { ...capabilities, features: [...capabilities.features, "shader-f16"] });
    expect(await fault(models.open(served, { device: rich, unvalidated: "refuse" }))).toBe(
      "unvalidated: 2 of 2 kernels, add, double, were unsupported when they were validated on node, by a device " +
        "without shader-f16: validate the suite on a device like this one and build it again",
    );
    const poor = await countedGpu({}, (gpu) => changed(gpu, without("shader-f16")));
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    for (const unvalidated of ["refuse", "warn"] as const) {
      expect(await fault(models.open(served, { device: poor.gpu, unvalidated }))).toContain(
        "unsupported: kernel add: needs the feature shader-f16, which this device lacks",
      );
    }
    expect(warn).not.toHaveBeenCalled();
    for (const { device } of [rich, poor.gpu]) device.destroy();
  });
});

describe("a device", () => {
  it("is asked for where none is given", async () => {
    const served = await modelOf(ADD);
    vi.stubGlobal("navigator", {
      userAgent: "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0",
    });
    const found = await fault(load(served.url, { fetch: served.fetch, unvalidated: "ignore" }));
    expect(found).toBe(
      "no-webgpu: This Firefox offers no WebGPU: set dom.webgpu.enabled to true in about:config and reload",
    );
  });

  it("is refused where it lacks a feature or a limit", async () => {
    const poor = await countedGpu({ maxComputeInvocationsPerWorkgroup: 256 }, (gpu) =>
      changed(gpu, without("shader-f16")),
    );
    const needing = (requires: { features: string[]; limits: Record<string, number> }) => {
      return modelOf({ ...ADD, kernels: (ADD.kernels ?? []).map((kernel) => ({ ...kernel, requires })) });
    };
    const feature = await needing({ features: ["shader-f16"], limits: {} });
    expect(await fault(models.open(feature, { device: poor.gpu }))).toContain(
      "unsupported: kernel add: needs the feature shader-f16, which this device lacks",
    );
    const limit = await needing({ features: [], limits: { maxComputeInvocationsPerWorkgroup: 1024 } });
    expect(await fault(models.open(limit, { device: poor.gpu }))).toContain(
      "unsupported: kernel add: needs maxComputeInvocationsPerWorkgroup 1024, this device allows 256",
    );
    poor.gpu.device.destroy();
  });

  it("that is lost ends a call, and the model comes back on another", async () => {
    const [first, second] = [await countedGpu(), await countedGpu()];
    const model = await models.of(COUNTER, { device: first.gpu });
    const one = { x: Float32Array.of(1) };
    await model.run(one);
    const running = fault(model.run(one));
    first.gpu.device.destroy();
    expect(await running).toMatch(/^device-lost: device lost: .*: call model.reload\(\)$/);
    expect(await fault(model.run(one))).toMatch(/^device-lost/);
    await model.reload({ device: second.gpu });
    expect((await model.run(one)).y).toEqual(Float32Array.of(1));
    model.dispose();
    expect([first.live.size, second.live.size]).toEqual([0, 0]);
    second.gpu.device.destroy();
  });
});
