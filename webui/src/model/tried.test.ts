import { expect, it } from "vitest";
import type { KernelDetail } from "../api/types";
import { device, result } from "./fixture";
import { type Action, EMPTY, type ResultsState, reduce } from "./results";
import { digestOf, reasonsOf, textsOf, triedOn } from "./tried";

const file = (name: string, text: string) => ({ name, text, digest: text, path: name, edited: false });
const detail: Pick<KernelDetail, "files" | "document"> = {
  files: [file("norm.wgsl", "a"), file("norm_f16.wgsl", "b")],
  document: file("norm.json", "{}"),
};
const texts = (text: string) => textsOf(detail, { "norm.wgsl": text });

/** A page tries a text, which gives this digest. */
function tries(from: ResultsState, job: string, text: string, digest: string): ResultsState {
  const actions: Action[] = [
    { type: "asked", job, asked: { kernels: ["norm"], trial: true, texts: texts(text) } },
    { type: "job", job },
    {
      type: "events",
      events: [
        { type: "started", kind: "validation", total: 1 },
        { type: "device", device: device("d") },
        { type: "kernels", digests: { norm: digest }, trial: true },
      ],
    },
  ];
  return actions.reduce(reduce, from);
}

const verdict = (state: ResultsState) =>
  reduce(state, {
    type: "events",
    events: [{ type: "verdict", device: "d", result: result("n1.s0", "d") }],
  });

it("knows what a text came to while it is shown, and when it is typed again", () => {
  const begun = tries(EMPTY, "one", "mine", "d1");
  expect(digestOf(begun, "norm", texts("mine"))).toBe("d1");
  // It runs, and has no verdict yet.
  expect(triedOn(begun, "norm", "d1", true)).toHaveLength(1);
  expect(triedOn(begun, "norm", "d1", false)).toHaveLength(0);
  const first = verdict(begun);
  expect(triedOn(first, "norm", "d1", false)).toHaveLength(1);
  // One more letter: nothing is known of it.
  expect(digestOf(first, "norm", texts("mine!"))).toBeUndefined();
  const second = verdict(tries(first, "two", "mine!", "d2"));
  expect(digestOf(second, "norm", texts("mine!"))).toBe("d2");
  expect(triedOn(second, "norm", digestOf(second, "norm", texts("mine")), false)).toHaveLength(1);
});

it("takes a text that is typed for the same one on disk", () => {
  const disk = reduce(EMPTY, { type: "known", kernel: "norm", texts: textsOf(detail, {}), digest: "d0" });
  expect(digestOf(disk, "norm", texts("a"))).toBe("d0");
  expect(digestOf(disk, "norm", texts("c"))).toBeUndefined();
  // Another file is another kernel.
  expect(digestOf(disk, "norm", textsOf(detail, { "norm_f16.wgsl": "c" }))).toBeUndefined();
});

it("keeps the last few", () => {
  let state = EMPTY;
  for (let at = 0; at < 40; at += 1) state = tries(state, `job ${at}`, `text ${at}`, `d${at}`);
  expect(Object.keys(state.known.norm ?? {})).toHaveLength(16);
  expect(digestOf(state, "norm", texts("text 39"))).toBe("d39");
});

it("tells each reason once, the compiler's words with their line", () => {
  const at = {
    severity: "error",
    line: 26,
    column: 7,
    message: "no mx",
    source: "",
    file: "norm.wgsl",
  } as const;
  const error = { kind: "compile", message: "it does not compile" } as never;
  const compile = {
    ...result("n1.s0", "d", "error"),
    message: "it does not compile",
    error,
    diagnostics: [at],
  };
  const grid = { ...result("n1.s0", "d", "unsupported"), message: "70000 workgroups along x, 65535 at most" };
  const fail = (test: string, count: number) => ({
    ...result(test, "d", "fail"),
    message: `${count} of 384 elements differ`,
  });
  expect(reasonsOf([compile, { ...compile, id: "n3.s0" }])).toEqual([{ text: "no mx", at }]);
  expect(reasonsOf([grid, result("n3.s0", "d")])).toEqual([{ text: grid.message, at: null }]);
  expect(reasonsOf([fail("n1.s0", 12), fail("n3.s0", 340)])).toEqual([
    { text: "12 of 384 elements differ", at: null },
  ]);
});
