import { expect, test } from "vitest";
import type { TestResult } from "../api/generated/results";
import type { JobEvent } from "../api/types";
import { device, result } from "./fixture";
import { EMPTY, type ResultsState, reduce } from "./results";
import { MOST_TEXTS, withoutKernels, withResults } from "./texts";

const of = (kernel: string, id: string): TestResult => ({ ...result("n1.s0", "a"), kernel, id });
const verdict = (found: TestResult, on = "a"): JobEvent => ({ type: "verdict", device: on, result: found });

/** As a page that has the job from its beginning. */
function joined(digests: Record<string, string>): ResultsState {
  const events: JobEvent[] = [
    { type: "started", kind: "validation", total: 9 },
    { type: "device", device: device("a") },
    { type: "device", device: device("b") },
    { type: "kernels", digests },
  ];
  return [
    { type: "kernels" as const, kernels: { k1: { digest: "new", edited: true } } },
    { type: "asked" as const, job: "j", asked: { kernels: null, trial: false } },
    { type: "job" as const, job: "j" },
    { type: "events" as const, events },
  ].reduce(reduce, EMPTY);
}

test("verdicts that come together say what they say one by one", () => {
  const before = [of("k1", "t1"), of("k1", "t2"), of("k2", "t3")].map((found) => verdict(found));
  const failing = { ...of("k2", "t3"), verdict: "fail" as const };
  const others = [
    verdict(of("k1", "t1"), "b"),
    verdict(failing),
    verdict(failing),
    verdict(of("k1", "t2"), "b"),
  ];
  const states = [[before, others], [[...before, ...others]], [...before, ...others].map((one) => [one])].map(
    (batches) => {
      let state = joined({ k1: "old", k2: "d" });
      for (const events of batches.slice(0, 1)) state = reduce(state, { type: "events", events });
      state = reduce(state, { type: "events", events: [{ type: "kernels", digests: { k1: "old" } }] });
      for (const events of batches.slice(1)) state = reduce(state, { type: "events", events });
      return state;
    },
  );
  for (const state of states) {
    expect(state).toEqual(states[0]);
    expect(state.job?.done).toBe(7);
    expect(state.job?.failing).toEqual(["k2"]);
    expect(state.outdated).toEqual({ a: ["k1"], b: ["k1"] });
  }
});

test("each text of a kernel keeps its verdicts, of so many texts", () => {
  let state: ResultsState = EMPTY;
  for (let text = 0; text < MOST_TEXTS + 3; text++)
    state = withResults(state, "a", [{ result: of("k", "t"), digest: `d${text}` }], false);
  expect(Object.keys(state.shelf.a?.k ?? {})).toHaveLength(MOST_TEXTS);
  expect(state.ran.a?.k).toBe(`d${MOST_TEXTS + 2}`);
  expect(Object.keys(state.verdicts.a ?? {})).toEqual(["t"]);
});

test("ten thousand kernels come, go and come back, each read once", () => {
  const count = 10_000;
  const told = Array.from({ length: count }, (_, at) => ({ result: of(`k${at}`, `t${at}`), digest: "d" }));
  const names = told.map(({ result: { kernel } }) => kernel);
  let state = withResults<ResultsState>(EMPTY, "a", told, false);
  state = withoutKernels(state, "a", names);
  expect(state.verdicts.a).toEqual({});
  const digests = Object.fromEntries(names.map((name) => [name, { digest: "d", edited: false }]));
  state = reduce(state, { type: "kernels", kernels: digests });
  expect(Object.keys(state.verdicts.a ?? {})).toHaveLength(count);
});
