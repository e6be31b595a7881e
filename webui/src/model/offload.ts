/** The offload trace as the picture and the chart need it. */

import type { JsonNumber, OffloadStep } from "../api/generated/results";
import type { SuiteDetail } from "../api/types";
import { cosine, error } from "./format";
import { NONE, olderSteps } from "./older";
import type { OffloadRun } from "./results";
import { type State, WORD } from "./verdicts";

/**
 * Nodes on the device are shown as pass, those that stayed on the reference by why they did. `changed`: kernels that are
 * others by now.
 */
export function offloadNodeStates(
  suite: SuiteDetail,
  run: OffloadRun | undefined,
  changed: ReadonlySet<string> = NONE,
): Map<string, State> {
  const states = new Map<string, State>();
  if (run === undefined) return states;
  const waiting: State = run.final === null && run.steps.length < run.total ? "waiting" : "none";
  for (const node of suite.graph.nodes) if (node.kind === "kernel") states.set(node.id, waiting);
  const older = olderSteps(run.steps, changed);
  for (const [at, step] of run.steps.entries())
    for (const node of step.nodes) states.set(node, older[at] ? "stale" : stepState(step));
  return states;
}

/** What became of a kernel, in the words of every page and report (`fate` of tapml.results.offload). */
export function fate(step: OffloadStep): "moved" | "put back" | "stayed" {
  if (step.kept) return "moved";
  return step.operator_verdict === "pass" ? "put back" : "stayed";
}

/** Of each node of a kernel that was tried, its kernel's fate; with the reason where it stayed. */
export function offloadNodeWords(run: OffloadRun | undefined): Map<string, string> {
  const words = new Map<string, string>();
  for (const step of run?.steps ?? []) {
    const word = fate(step) === "stayed" ? `stayed: operator ${WORD[step.operator_verdict]}` : fate(step);
    for (const node of step.nodes) words.set(node, word);
  }
  return words;
}

/** What the whole model's figure says of the kernels that did not move: it may pass with a broken kernel in it. */
export function notMoved(run: OffloadRun): string {
  const { final } = run;
  if (!final?.model_metric) return "On the reference";
  const broken = run.steps.some(
    (step) => !step.kept && (stepState(step) === "fail" || stepState(step) === "error"),
  );
  if (broken && final.verdict === "pass")
    return "Not moved in the steps below, as they are broken; they ran here all the same, and the output does not show it";
  return "Not moved in the steps below, but run here";
}

/** The run as it was when so many kernels had been tried; null is all of them. */
export function runUntil(run: OffloadRun | undefined, tried: number | null): OffloadRun | undefined {
  if (run === undefined || tried === null || tried >= run.steps.length) return run;
  return { ...run, steps: run.steps.slice(0, Math.max(0, tried)) };
}

/** Of the model's figure: a dash where nothing was compared, a word where the document has no number for what is none. */
export function metricText(metric: OffloadStep["model_metric"]): { cosine: string; error: string } {
  if (metric === null) return { cosine: "-", error: "-" };
  return {
    cosine: metric.cosine === null ? "NaN" : cosine(metric.cosine),
    error: metric.max_abs_error === null ? "not finite" : error(metric.max_abs_error),
  };
}

export function stepState(step: OffloadStep): State {
  if (step.kept) return "pass";
  return step.operator_verdict === "pass" ? "fail" : step.operator_verdict;
}

export function finite(value: JsonNumber | null | undefined): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
