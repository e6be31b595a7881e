import { afterEach, expect, it, vi } from "vitest";
import type { VmWorker } from "./api";
import { type Host, Vm } from "./vm";

/** A VM whose worker says what the test says, and a host that answers nothing. */
async function started() {
  let tell = (_: unknown): void => {};
  const emitted: unknown[] = [];
  const ended: string[] = [];
  const worker: VmWorker = {
    postMessage: (message) => {
      if ((message as { kind: string }).kind === "start") queueMicrotask(() => tell({ kind: "ready" }));
    },
    onMessage: (listener) => {
      tell = listener;
    },
    onError: () => {},
    terminate: () => void ended.push("terminated"),
  };
  const never = () => new Promise<never>(() => {});
  const host: Host = {
    emit: (_, value) => void emitted.push(value),
    ...{ fetch: never, model: never, flush: never, sql: never, add: () => {} },
  };
  const given = {
    ...{ worker, python: "/", snapshot: null, makeSnapshot: false, files: new Map(), main: "main" },
    ...{ emits: ["seen"], tables: {}, arrays: undefined, packages: [] },
  };
  const vm = await Vm.start(given, host);
  return { vm, emitted, ended, tell: (message: unknown) => tell(message) };
}

afterEach(() => void vi.useRealTimers());

it("a run that was interrupted has five seconds to end, on a device as slow as it may be", async () => {
  for (const [seconds, answers] of [
    [4.9, true],
    [5, false],
  ] as const) {
    const { vm, ended, tell } = await started();
    vi.useFakeTimers();
    const run = vm.run("{}", 2);
    vi.advanceTimersByTime(2000 + 1000 * seconds);
    tell({ kind: "ended", id: 1, outcome: '{"error":"KeyboardInterrupt"}', milliseconds: 1 });
    vi.useRealTimers();
    const { kind, message } = await run;
    expect([kind, message, ended]).toEqual(
      answers
        ? ["time", "KeyboardInterrupt", []]
        : ["time", "it ran longer than 2 s, and did not stop when it was interrupted", ["terminated"]],
    );
  }
});

it("a worker that sends without end, past its own side, is ended", async () => {
  const flooding = await started();
  const flooded = flooding.vm.run("{}", 10);
  for (let value = 0; value < 2001; value++)
    flooding.tell({ kind: "emit", name: "seen", value: String(value) });
  expect((await flooded).message).toBe("it sends more than it may");
  expect(flooding.emitted).toHaveLength(1000);
  expect(flooding.ended).toEqual(["terminated"]);

  const asking = await started();
  const asked = asking.vm.run("{}", 10);
  for (let id = 0; id < 101; id++)
    asking.tell({ kind: "fetch", id, url: "https://a.example/", method: "GET" });
  expect((await asked).message).toBe("it sends more than it may");
  expect(asking.ended).toEqual(["terminated"]);
});
