/** The states a test may be shown in: a verdict, or on the way to one. Each has a glyph and a word, not only a colour. */

import { GLYPH as GLYPHS } from "../../../runner_js/kit/text";
import type { Verdict } from "../api/generated/results";

/** "stale": a verdict of an older text of the kernel. */
export type State = Verdict | "running" | "waiting" | "none" | "stale";

export const GLYPH: Record<State, string> = { ...GLYPHS, stale: "✎" };

export const OLDER = "for older WGSL";

export const WORD: Record<State, string> = {
  pass: "pass",
  fail: "fail",
  error: "error",
  unsupported: "unsupported",
  unbounded: "unbounded",
  running: "running",
  waiting: "waiting",
  none: "not run",
  stale: OLDER,
};

/** Worst first: what a group of tests is shown as. */
export const ORDER: readonly State[] = [
  "error",
  "fail",
  "unbounded",
  "running",
  "waiting",
  "stale",
  "unsupported",
  "pass",
  "none",
];

/** In the order in which they are counted. */
export const VERDICTS: readonly Verdict[] = ["pass", "fail", "error", "unbounded", "unsupported"];

/** A word the server sent; one this page does not know is an error, never a pass. */
export function asState(verdict: string): State {
  return VERDICTS.find((known) => known === verdict) ?? "error";
}

export type Counts = Record<State, number>;

export function noCounts(): Counts {
  return {
    pass: 0,
    fail: 0,
    error: 0,
    unsupported: 0,
    unbounded: 0,
    running: 0,
    waiting: 0,
    none: 0,
    stale: 0,
  };
}

export function worst(counts: Counts): State {
  return ORDER.find((state) => counts[state] > 0) ?? "none";
}

export function total(counts: Counts): number {
  return ORDER.reduce((sum, state) => sum + counts[state], 0);
}

export function isProblem(state: State): boolean {
  return state === "fail" || state === "error" || state === "unbounded";
}

/** "5 pass, 1 fail" */
export function describe(counts: Counts): string {
  const parts = (
    ["fail", "error", "unbounded", "unsupported", "pass", "stale", "running", "waiting", "none"] as const
  )
    .filter((state) => counts[state] > 0)
    .map((state) => `${counts[state]} ${WORD[state]}`);
  return parts.join(", ") || "no tests";
}
