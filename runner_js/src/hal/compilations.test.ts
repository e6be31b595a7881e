import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Compilations, canCompile } from "./compilations";
import type { DeviceFailure } from "./errors";
import { Gpu } from "./gpu";

const forever = () => new Promise<never>(() => {});
const after = (ms: number) => () => new Promise<string>((resolve) => setTimeout(() => resolve("made"), ms));

let gpu: Gpu;
let compilations: Compilations;
let announced: string[];

beforeEach(() => {
  vi.useFakeTimers();
  const device = { lost: new Promise(() => {}) };
  const adapter = { vendor: "", architecture: "", device: "", description: "" };
  gpu = new Gpu(device as unknown as GPUDevice, { adapter, features: [], limits: {} });
  compilations = new Compilations(gpu);
  announced = [];
  compilations.expect(10, async (kernel) => {
    announced.push(kernel);
  });
});
afterEach(() => {
  vi.useRealTimers();
});

/** What the device's loss says. */
async function report() {
  const cause = await gpu.guard(forever(), new AbortController().signal).catch((thrown: unknown) => thrown);
  return (cause as DeviceFailure).report;
}

it("names the one that never ends, and leaves no clock behind it", async () => {
  void compilations.run("bomb", forever);
  await vi.advanceTimersByTimeAsync(9900);
  expect(gpu.lost).toBeNull();
  expect(compilations.culprit).toEqual({ kernel: "bomb" });
  await vi.advanceTimersByTimeAsync(700);
  expect(await report()).toEqual({
    kind: "device-lost",
    lost_reason: "hung",
    kernel: "bomb",
    message: "compiling kernel bomb did not end within 10 s: the GPU device is lost",
  });
  expect(vi.getTimerCount()).toBe(0);
});

it("watches each anew, however many wait for the same thread", async () => {
  const ends = Array.from({ length: 30 }, (_, i) => compilations.run(`k${i}`, after(8000)));
  await vi.advanceTimersByTimeAsync(40_000);
  expect(await Promise.all(ends)).toHaveLength(30);
  expect(gpu.lost).toBeNull();
  expect(vi.getTimerCount()).toBe(0);
});

it("names the one that is left when the others have ended", async () => {
  void compilations.run("bomb", forever);
  const slow = Array.from({ length: 20 }, (_, i) => compilations.run(`k${i}`, after(9000)));
  await vi.advanceTimersByTimeAsync(30_000);
  expect(await Promise.all(slow)).toHaveLength(20);
  expect(gpu.lost).toBeNull();
  await vi.advanceTimersByTimeAsync(10_000);
  expect((await report()).kernel).toBe("bomb");
});

it("accuses nobody where several do not end", async () => {
  for (const kernel of ["one", "one", "other"]) void compilations.run(kernel, forever);
  await vi.advanceTimersByTimeAsync(11_000);
  expect(await report()).toEqual({
    kind: "device-lost",
    lost_reason: "hung",
    message: "compiling one of the kernels one, other did not end within 10 s: the GPU device is lost",
  });
});

it("names the one that takes all the memory there is", async () => {
  let bytes = 500 << 20;
  const bounded = new Compilations(gpu, () => bytes);
  bounded.expect(10, () => Promise.resolve());
  void bounded.run("bomb", forever);
  await vi.advanceTimersByTimeAsync(2000);
  expect(gpu.lost).toBeNull();
  bytes += 5 * 2 ** 30;
  await vi.advanceTimersByTimeAsync(600);
  expect(await report()).toMatchObject({
    lost_reason: "hung",
    kernel: "bomb",
    message: "compiling kernel bomb took more than 4 GB of memory: the GPU device is lost",
  });
});

it("begins one after the other, each after word of it is on its way", async () => {
  const order: string[] = [];
  compilations.expect(10, async (kernel) => {
    order.push(`announced ${kernel}`);
    await after(5)();
    order.push(`heard ${kernel}`);
  });
  const begin = (kernel: string) => () => {
    order.push(`begins ${kernel}`);
    return after(100)();
  };
  const both = [compilations.run("a", begin("a")), compilations.run("b", begin("b"))];
  await vi.advanceTimersByTimeAsync(200);
  await Promise.all(both);
  expect(order).toEqual(["a", "b"].flatMap((k) => [`announced ${k}`, `heard ${k}`, `begins ${k}`]));
});

it("blames what took the thread itself, and no other that could not end meanwhile", async () => {
  void compilations.run("other", forever);
  const running = compilations.run("bomb", () => {
    vi.setSystemTime(Date.now());
    vi.spyOn(performance, "now").mockReturnValue(performance.now() + 50_000);
    return forever();
  });
  running.catch(() => {});
  await vi.advanceTimersByTimeAsync(10);
  expect((await report()).kernel).toBe("bomb");
  vi.restoreAllMocks();
});

it("does not count the time in which the machine slept", async () => {
  const ended = compilations.run("slow", after(9000));
  await vi.advanceTimersByTimeAsync(5000);
  const now = performance.now();
  const clock = vi.spyOn(performance, "now").mockReturnValue(now + 3_600_000);
  await vi.advanceTimersByTimeAsync(500);
  clock.mockRestore();
  await vi.advanceTimersByTimeAsync(5000);
  expect(await ended).toBe("made");
  expect(gpu.lost).toBeNull();
});

it.each([
  ["ends", () => Promise.resolve({}), true],
  ["does not end", forever, false],
])("knows whether the smallest compilation %s", async (_, compile, expected) => {
  const texts: string[] = [];
  const device = {
    createShaderModule: ({ code }: { code: string }) => texts.push(code),
    createComputePipelineAsync: compile,
  } as unknown as GPUDevice;
  const asked = Promise.all([canCompile(device), canCompile(device)]);
  await vi.advanceTimersByTimeAsync(20_000);
  expect(await asked).toEqual([expected, expected]);
  expect(new Set(texts).size).toBe(2);
  expect(vi.getTimerCount()).toBe(0);
});

it("goes on after one that is refused", async () => {
  const refused = compilations.run("wrong", () => Promise.reject(new Error("no such name")));
  await expect(refused).rejects.toThrow("no such name");
  const next = compilations.run("right", after(1));
  await vi.advanceTimersByTimeAsync(10);
  expect(await next).toBe("made");
  expect(announced).toEqual(["wrong", "right"]);
});
