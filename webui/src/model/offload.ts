/** The offload trace as the picture and the chart need it. */

import type { JsonNumber, OffloadStep } from "../api/generated/results";
import type { SuiteDetail } from "../api/types";
import type { OffloadRun } from "./results";
import type { State } from "./verdicts";

/** Nodes on the device are shown as pass, those that stayed on the reference by why they did. */
export function offloadNodeStates(suite: SuiteDetail, run: OffloadRun | undefined): Map<string, State> {
  const states = new Map<string, State>();
  if (run === undefined) return states;
  const waiting: State = run.final === null && run.steps.length < run.total ? "waiting" : "none";
  for (const node of suite.graph.nodes) if (node.kind === "kernel") states.set(node.id, waiting);
  for (const step of run.steps) for (const node of step.nodes) states.set(node, stepState(step));
  return states;
}

export function stepState(step: OffloadStep): State {
  if (step.kept) return "pass";
  return step.operator_verdict === "pass" ? "fail" : step.operator_verdict;
}

export function finite(value: JsonNumber | null | undefined): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
