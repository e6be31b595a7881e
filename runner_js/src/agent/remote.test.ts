import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import * as own from "./arrays/arrays";
import { arraysOnGpu } from "./gpu";
import { type Asked, DONE, FAILED, HEAD, WAITING } from "./gpu/messages";
import type { Start } from "./messages";
import { arraysOf, Remote } from "./remote";
import { Vm, type VmStart } from "./vm";

const X = new Float32Array(1000).fill(2);

/** A GPU's side on the same thread, whose every answer takes `ms` and says `state`. */
function remote(ms: number, state: number, least = 0.001) {
  let asked = 0;
  const interrupt = new Uint8Array(1);
  const postMessage = ({ answer }: Asked) => {
    asked += 1;
    new Float32Array(answer, HEAD).fill(7);
    new Float32Array(answer, 4, 1)[0] = ms;
    if (state === WAITING) interrupt[0] = 2;
    else Atomics.store(new Int32Array(answer), 0, state);
  };
  const port = { postMessage } as unknown as MessagePort;
  const arrays = arraysOf({ ...own }, new Remote({ port, least }, interrupt, () => 0));
  return { exp: () => arrays.unary("exp", X, "float32")[0], asked: () => asked };
}

describe("what a VM asks of a GPU", () => {
  it("is answered by it, as long as it is faster than typed arrays", () => {
    const { exp, asked } = remote(0, DONE);
    expect([exp(), exp(), exp()]).toEqual([7, 7, 7]);
    expect(asked()).toBe(3);
  });

  it("is computed by the VM where the GPU turned out to be slower", () => {
    const { exp, asked } = remote(100, DONE);
    expect(exp()).toBe(7);
    expect([exp(), exp()]).toEqual([Math.fround(Math.exp(2)), Math.fround(Math.exp(2))]);
    expect(asked()).toBe(1);
  });

  it("is computed by the VM where the GPU fails, and three failures in a row end the asking", () => {
    const { exp, asked } = remote(0, FAILED);
    for (let i = 0; i < 5; i++) expect(exp()).toBe(Math.fround(Math.exp(2)));
    expect(asked()).toBe(3);
  });

  it("is left when the task is interrupted", () => {
    expect(remote(0, WAITING).exp).toThrow("the task was interrupted");
  });

  it("is not asked below the least number of milliseconds", () => {
    const { exp, asked } = remote(0, DONE, 1);
    expect(exp()).toBe(Math.fround(Math.exp(2)));
    expect(asked()).toBe(0);
  });
});

describe("a VM", () => {
  // Nobody waits for it to start.
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  /** What a VM's worker is told first, and what is handed over to it. */
  function started(): [Start, Transferable[]] {
    const said: [Start, Transferable[]][] = [];
    const worker = {
      postMessage: (message: unknown, transfer: Transferable[] = []) =>
        void said.push([message as Start, transfer]),
      ...{ onMessage: () => {}, onError: () => {}, terminate: () => {} },
    };
    const arrays = { connect: () => ({ port: new MessageChannel().port1, least: 4 }) };
    const given: VmStart = {
      ...{ worker, python: "", snapshot: null, makeSnapshot: false, files: new Map(), main: "main" },
      ...{ emits: [], tables: {}, arrays, packages: ["https://page.example/a.whl"] },
    };
    void Vm.start(given, {} as never);
    return said[0] as [Start, Transferable[]];
  }

  it("has the GPU's side where threads share memory", () => {
    const [{ gpu, packages }, transfer] = started();
    expect(gpu?.least).toBe(4);
    expect(transfer).toEqual([gpu?.port]);
    expect(packages).toEqual(["https://page.example/a.whl"]);
  });

  it("has none where they share none: it computes itself", () => {
    vi.stubGlobal("SharedArrayBuffer", undefined);
    const [{ gpu, interrupt }, transfer] = started();
    expect([gpu, interrupt, transfer]).toEqual([null, null, []]);
  });
});

describe("a device's speed", () => {
  const of = (run: () => Promise<Record<string, unknown>>) => {
    const load = async () => ({ functions: { matmul: { run } }, dispose: () => {} });
    return arraysOnGpu({ load }).speed();
  };

  it("is that of the best of several products", async () => {
    let runs = 0;
    const speed = await of(async () => {
      runs += 1;
      return { out: X };
    });
    expect(speed).toBeGreaterThan(0);
    expect(runs).toBe(5);
  });

  it("is null where there is no GPU", async () => {
    expect(await of(() => Promise.reject(new Error("lost")))).toBe(null);
  });
});

describe("the GPU's side", () => {
  const inputs = { x: X };
  const steps = [{ function: "exp", inputs }];
  const wrong: [string, unknown][] = [
    ["nothing", null],
    ["no kernel", { kernel: "constructor", steps, sizes: { n: 1000 } }],
    ["no kernel's name", { kernel: ["exp"], steps, sizes: { n: 1000 } }],
    ["no steps", { kernel: "exp", steps: [], sizes: { n: 1000 } }],
    ["many steps", { kernel: "exp", steps: [...steps, ...steps, ...steps], sizes: { n: 1000 } }],
    ["another function", { kernel: "exp", steps: [{ function: "log", inputs }], sizes: { n: 1000 } }],
    ["no inputs", { kernel: "exp", steps: [{ function: "exp", inputs: null }], sizes: { n: 1000 } }],
    ["no sizes", { kernel: "exp", steps, sizes: null }],
    ["a size of 0", { kernel: "exp", steps, sizes: { n: 0 } }],
    ["a size that is no number", { kernel: "exp", steps, sizes: { n: "1000" } }],
    [
      "work for an hour",
      { kernel: "matmul_float32", steps, sizes: { pairs: 1, n: 1e6, k: 1e6, m: 1e6, xs: 1, ys: 1, size: 1 } },
    ],
  ];

  it.each(wrong)("refuses %s, loads nothing for it, and goes on", async (_, asked) => {
    const loaded: string[] = [];
    const failures: unknown[] = [];
    const load = async (url: string) => {
      loaded.push(url);
      const run = async () => ({ out: X });
      return { functions: { exp: { run } }, dispose: () => {} };
    };
    const arrays = arraysOnGpu({ load, onFailure: (cause) => failures.push(cause) });
    const { port } = arrays.connect();
    const told = async (given: object) => {
      const answer = new SharedArrayBuffer(HEAD + 4000);
      port.postMessage({ ...given, answer });
      while (Atomics.load(new Int32Array(answer), 0) === WAITING)
        await new Promise((go) => setTimeout(go, 1));
      return Atomics.load(new Int32Array(answer), 0);
    };
    port.postMessage(asked);
    port.postMessage({ ...(asked as object), answer: new ArrayBuffer(8) });
    expect(await told(asked ?? {})).toBe(FAILED);
    expect(loaded).toEqual([]);
    expect(failures.length).toBe(1);
    expect(await told({ kernel: "exp", steps, sizes: { n: 1000 } })).toBe(DONE);
    expect(loaded).toEqual(["https://tapml.invalid/exp/"]);
    arrays.close();
  });
});
