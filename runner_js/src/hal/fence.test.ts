import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { ErrorReport } from "../protocol/messages";
import { DeviceFailure } from "./errors";
import { Fence } from "./fence";
import { Gpu } from "./gpu";

const { signal } = new AbortController();
const forever = new Promise<never>(() => {});

let gpu: Gpu;
let lose: (info: { reason: string; message: string }) => void;
/** Ends what was submitted, in order. */
let ends: (() => void)[];
let fail: ((cause: Error) => void)[];

beforeEach(() => {
  vi.useFakeTimers();
  ends = [];
  fail = [];
  const device = {
    lost: new Promise((resolve) => {
      lose = resolve;
    }),
    queue: {
      onSubmittedWorkDone: () =>
        new Promise<void>((resolve, reject) => {
          ends.push(resolve);
          fail.push(reject);
        }),
    },
  };
  const adapter = { vendor: "", architecture: "", device: "", description: "" };
  const features = ["timestamp-query"];
  gpu = new Gpu(device as unknown as GPUDevice, { adapter, features, limits: {} });
});

afterEach(() => {
  vi.useRealTimers();
});

interface Builtin {
  getBuiltinModule(name: "v8"): { setFlagsFromString(flags: string): void };
  getBuiltinModule(name: "vm"): { runInNewContext(code: string): () => void };
}

async function collectGarbage(): Promise<void> {
  const { process } = globalThis as unknown as { process: Builtin };
  process.getBuiltinModule("v8").setFlagsFromString("--expose-gc");
  // A reference that was just read lives until the end of its turn.
  await new Promise((resolve) => setTimeout(resolve, 1));
  process.getBuiltinModule("vm").runInNewContext("gc")();
}

async function reportOf(promise: Promise<unknown>): Promise<ErrorReport> {
  const cause = await promise.catch((thrown: unknown) => thrown);
  if (!(cause instanceof DeviceFailure)) throw new Error(`not a DeviceFailure: ${cause}`);
  return cause.report;
}

describe("Gpu.guard", () => {
  it("gives what is promised, and leaves no timer behind", async () => {
    const watchdog = { seconds: 1, culprit: () => ({}) };
    expect(await gpu.guard(Promise.resolve(7), signal, watchdog)).toBe(7);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("keeps nothing of what was waited for", async () => {
    vi.useRealTimers();
    const forgotten: WeakRef<object>[] = [];
    for (let i = 0; i < 100; i++) {
      const result = { kernels: new Array(1000).fill(i) };
      forgotten.push(new WeakRef(result));
      await gpu.guard(Promise.resolve(result), signal);
      await gpu.guard(Promise.reject(result), signal).catch(() => {});
    }
    await collectGarbage();
    expect(forgotten.filter((result) => result.deref()).length).toBeLessThan(5);
    expect(gpu.waiters).toBe(0);
  });

  it("takes work that does not end for hung, and names kernel and test", async () => {
    const watchdog = { seconds: 2, culprit: () => ({ kernel: "softmax", test: "t1" }) };
    const report = reportOf(gpu.guard(forever, signal, watchdog));
    await vi.advanceTimersByTimeAsync(1900);
    expect(gpu.lost).toBeNull();
    await vi.advanceTimersByTimeAsync(700);
    expect(await report).toEqual({
      kind: "device-lost",
      message: "kernel softmax did not end within 2 s in test t1: the GPU device is lost",
      lost_reason: "hung",
      kernel: "softmax",
      test: "t1",
    });
    expect(vi.getTimerCount()).toBe(0);
  });

  it("blames nobody where nobody is known", async () => {
    const report = reportOf(gpu.guard(forever, signal, { seconds: 1, culprit: () => ({}) }));
    await vi.advanceTimersByTimeAsync(1500);
    expect(await report).toEqual({
      kind: "device-lost",
      message: "the GPU's work did not end within 1 s: the GPU device is lost",
      lost_reason: "hung",
    });
  });

  it("is patient while there are signs of work", async () => {
    let lastSign = performance.now();
    const guarded = gpu.guard(forever, signal, { seconds: 1, culprit: () => ({}), lastSign: () => lastSign });
    const report = reportOf(guarded);
    for (let i = 0; i < 10; i++) {
      await vi.advanceTimersByTimeAsync(800);
      lastSign = performance.now();
    }
    expect(gpu.lost).toBeNull();
    await vi.advanceTimersByTimeAsync(1300);
    expect((await report).lost_reason).toBe("hung");
  });

  it("waits for ever without a watchdog", async () => {
    let settled = false;
    void gpu.guard(forever, signal).finally(() => {
      settled = true;
    });
    await vi.advanceTimersByTimeAsync(1e7);
    expect(settled).toBe(false);
  });

  it("ends when the call is aborted, with its reason", async () => {
    const controller = new AbortController();
    const reason = new Error("cancelled");
    const watchdog = { seconds: 1, culprit: () => ({}) };
    const guarded = gpu.guard(forever, controller.signal, watchdog).catch((cause: unknown) => cause);
    controller.abort(reason);
    expect(await guarded).toBe(reason);
    expect(vi.getTimerCount()).toBe(0);
    expect(gpu.lost).toBeNull();
    await expect(gpu.guard(Promise.resolve(1), controller.signal)).rejects.toBe(reason);
  });

  it("ends when the device is lost, and blames what runs", async () => {
    gpu.running = () => ({ kernel: "matmul" });
    const report = reportOf(gpu.guard(forever, signal));
    lose({ reason: "unknown", message: "driver reset" });
    const expected = {
      kind: "device-lost",
      message: "device lost: driver reset (unknown)",
      lost_reason: "unknown",
      kernel: "matmul",
    };
    expect(await report).toEqual(expected);
    await gpu.whenLost;
    expect(() => gpu.throwIfLost()).toThrow("driver reset");
    expect(await reportOf(gpu.guard(forever, signal))).toEqual(expected);
  });

  it("blames nobody for a device that was destroyed on purpose", async () => {
    gpu.running = () => ({ kernel: "matmul" });
    const report = reportOf(gpu.guard(forever, signal));
    lose({ reason: "destroyed", message: "" });
    expect(await report).toEqual({
      kind: "device-lost",
      message: "device lost: the implementation gave no reason (destroyed)",
      lost_reason: "destroyed",
    });
  });

  it("keeps the first reason of a loss", async () => {
    gpu.markLost("hung", "kernel k did not end", { kernel: "k" });
    lose({ reason: "unknown", message: "driver reset" });
    await vi.advanceTimersByTimeAsync(0);
    expect(gpu.lost).toBe("kernel k did not end");
  });

  it("passes on what goes wrong in the promise itself", async () => {
    await expect(gpu.guard(Promise.reject(new Error("no")), signal)).rejects.toThrow("no");
  });

  it("says whether the device has timestamps", () => {
    expect(gpu.timestamps).toBe(true);
  });
});

describe("Fence", () => {
  let fence: Fence;

  beforeEach(() => {
    fence = new Fence(gpu);
  });

  it("takes the first that has not ended for what runs now", async () => {
    void fence.submitted(() => ({ kernel: "a" }));
    void fence.submitted(() => ({ kernel: "b" }));
    expect(fence.culprit).toEqual({ kernel: "a" });
    ends[0]?.();
    await vi.advanceTimersByTimeAsync(0);
    expect(fence.culprit).toEqual({ kernel: "b" });
    ends[1]?.();
    await vi.advanceTimersByTimeAsync(0);
    expect(fence.culprit).toEqual({});
  });

  it("counts on the order where ends come out of it", async () => {
    void fence.submitted(() => ({ kernel: "a" }));
    void fence.submitted(() => ({ kernel: "b" }));
    ends[1]?.();
    await vi.advanceTimersByTimeAsync(0);
    expect(fence.culprit).toEqual({ kernel: "a" });
    ends[0]?.();
    await vi.advanceTimersByTimeAsync(0);
    expect(fence.culprit).toEqual({});
  });

  it("takes what failed for ended", async () => {
    const ended = fence.submitted(() => ({ kernel: "a" }));
    fail[0]?.(new Error("lost"));
    await ended;
    expect(fence.culprit).toEqual({});
  });

  it("renews the watchdog with each end", async () => {
    for (const kernel of ["a", "b", "c"]) void fence.submitted(() => ({ kernel }));
    const report = reportOf(gpu.guard(forever, signal, fence.watchdog(1)));
    for (const end of ends.slice(0, 2)) {
      await vi.advanceTimersByTimeAsync(900);
      end();
    }
    await vi.advanceTimersByTimeAsync(900);
    expect(gpu.lost).toBeNull();
    await vi.advanceTimersByTimeAsync(500);
    expect(await report).toMatchObject({ lost_reason: "hung", kernel: "c" });
  });

  it("does not count the time in which nothing ran", async () => {
    await vi.advanceTimersByTimeAsync(60_000);
    void fence.submitted(() => ({ kernel: "a" }));
    const report = reportOf(gpu.guard(forever, signal, fence.watchdog(1)));
    await vi.advanceTimersByTimeAsync(900);
    expect(gpu.lost).toBeNull();
    await vi.advanceTimersByTimeAsync(500);
    expect((await report).kernel).toBe("a");
  });

  it("is to blame when the device is lost by itself", async () => {
    void fence.submitted(() => ({ kernel: "a", test: "t" }));
    const report = reportOf(gpu.guard(forever, signal));
    lose({ reason: "unknown", message: "driver reset" });
    expect(await report).toMatchObject({ kernel: "a", test: "t" });
  });

  it("watches what nobody waits for", async () => {
    void fence.submitted(() => ({ kernel: "a" }));
    fence.watch(1);
    fence.watch(1);
    expect(vi.getTimerCount()).toBe(1);
    await vi.advanceTimersByTimeAsync(1500);
    expect(gpu.lost).toContain("kernel a did not end within 1 s");
    expect(vi.getTimerCount()).toBe(0);
  });

  it("watches no longer than work goes on, and again later", async () => {
    fence.watch(1);
    expect(vi.getTimerCount()).toBe(0);
    for (let round = 0; round < 2; round++) {
      void fence.submitted(() => ({ kernel: "a" }));
      fence.watch(1);
      expect(vi.getTimerCount()).toBe(1);
      for (const end of ends) end();
      await vi.advanceTimersByTimeAsync(0);
      expect(vi.getTimerCount()).toBe(0);
    }
    await vi.advanceTimersByTimeAsync(10_000);
    expect(gpu.lost).toBeNull();
  });
});
