/** A search for faulty kernels, in words and in the colours of the graph. */

import type { GrownNode, LocateDocument, Suspect, Suspicious } from "../api/generated/results";
import type { SuiteDetail } from "../api/types";
import { count, grouped } from "./format";
import { finite } from "./offload";
import { NONE } from "./older";
import { asState, OLDER, type State } from "./verdicts";

/** What is drawn at a node's corner beside its state. */
export interface Mark {
  label: string;
  word: string;
}

export type Marks = ReadonlyMap<string, Mark>;

export const MINIMAL = "◆";
export const SUSPICIOUS = "?";
export const RACING = "∦";

/** Kernels that are accused, most certain first; what could not run at all is no suspect. */
export function suspects(document: LocateDocument): Suspect[] {
  return document.kernels.filter((kernel) => kernel.verdict !== "unsupported");
}

export function notRun(document: LocateDocument): Suspect[] {
  return document.kernels.filter((kernel) => kernel.verdict === "unsupported");
}

/** Whether every test of the suite was run: only then is a node that is not named known to be right. */
function complete(suite: SuiteDetail, document: LocateDocument): boolean {
  return !document.interrupted && document.summary.tests >= suite.tests.length;
}

/** `changed`: kernels that are others by now than those that were searched. */
export function locateNodeStates(
  suite: SuiteDetail,
  document: LocateDocument | undefined,
  changed: ReadonlySet<string> = NONE,
): Map<string, State> {
  const states = new Map<string, State>();
  if (document === undefined) return states;
  const tested = new Set(suite.tests.map((test) => test.node));
  const rest: State = complete(suite, document) ? "pass" : "none";
  for (const node of suite.graph.nodes)
    if (node.kind === "kernel") states.set(node.id, tested.has(node.id) ? rest : "none");
  for (const kernel of document.kernels) {
    for (const node of kernel.nodes) states.set(node, asState(kernel.verdict));
    for (const node of kernel.passing_nodes) states.set(node, "pass");
  }
  for (const { id, kernel } of changed.size > 0 ? suite.graph.nodes : [])
    if (changed.has(kernel) && (states.get(id) ?? "none") !== "none") states.set(id, "stale");
  return states;
}

/** Suspects by their rank; what is suspicious; of a compound error the nodes that make it. */
export function locateMarks(
  document: LocateDocument | undefined,
  changed: ReadonlySet<string> = NONE,
): Marks {
  const marks = new Map<string, Mark>();
  if (document === undefined) return marks;
  const mark = (nodes: readonly string[], label: string, word: string, older: boolean) => {
    for (const node of nodes) marks.set(node, { label, word: older ? `${word}, ${OLDER}` : word });
  };
  for (const { nodes, kernel } of document.suspicious)
    mark(nodes, SUSPICIOUS, "suspicious", changed.has(kernel));
  for (const { nodes, kernel } of document.missing_barriers)
    mark(nodes, RACING, "a barrier is missing", changed.has(kernel));
  for (const [at, { nodes, kernel }] of suspects(document).entries())
    mark(nodes, String(at + 1), `suspect ${at + 1}`, changed.has(kernel));
  if (document.summary.verdict === "compound")
    mark(document.model?.minimal_nodes ?? [], MINIMAL, "in the minimal set", changed.size > 0);
  return marks;
}

/** What a search says of a node, if it is one that fails. */
export function accusation(document: LocateDocument | undefined, node: string): Suspect | undefined {
  return document?.kernels.find((kernel) => kernel.nodes.includes(node));
}

/** The one sentence above everything else. */
export function verdictSentence(document: LocateDocument, device: string): string {
  const { verdict, tests } = document.summary;
  if (verdict === "unknown") return `The search on ${device} was interrupted; nothing was found until then.`;
  if (verdict === "faulty" || verdict === "unbounded") {
    const named = accusedCounts(document.summary).join(" and ");
    return `${named} on ${device}${document.interrupted ? ", and the search was interrupted" : ""}.`;
  }
  if (verdict === "compound")
    return `No kernel is faulty by itself on ${device}, but the whole model is off: the error is a compound one.`;
  if (notRun(document).length > 0)
    return `No faulty kernel on ${device}, but ${count(notRun(document).length, "kernel")} could not run there.`;
  if (document.suspicious.length > 0) {
    const named = count(document.suspicious.length, "suspicious kernel");
    return `No faulty kernel on ${device}, but ${named}: rounding does not explain the errors.`;
  }
  if (document.missing_barriers.length > 0) {
    const named = count(document.summary.racing_kernels.length, "edited kernel");
    return `No faulty kernel on ${device}, but ${named} with a barrier missing: a race that it does not show.`;
  }
  const all = tests === 1 ? "the one test passes" : `all ${grouped(tests)} tests pass`;
  return document.model === null
    ? `All is well on ${device}: ${all}. The whole model was not run.`
    : `All is well on ${device}: ${all}, and so does the whole model.`;
}

/** "2 faulty kernels", "1 unbounded kernel". */
export function accusedCounts(summary: LocateDocument["summary"]): string[] {
  const named = [
    { word: "faulty kernel", kernels: summary.faulty_kernels },
    { word: "unbounded kernel", kernels: summary.unbounded_kernels },
  ];
  return named
    .filter(({ kernels }) => kernels.length > 0)
    .map(({ word, kernels }) => count(kernels.length, word));
}

/** "22 x what rounding explains", with a digit behind the point below 10. */
export function timesRounding({ times }: Suspicious): string {
  return `${times.toFixed(times < 10 ? 1 : 0)} × what rounding explains`;
}

/** Whether it fails the same way each time. */
export function determinism(suspect: Suspect): string {
  if (suspect.deterministic === null) return "not run again";
  if (suspect.deterministic) return `${count(suspect.runs, "run")}, identical`;
  const where = suspect.differing > 0 ? `${count(suspect.differing, "element")} differ` : "differs";
  return `${where} from run to run: a race`;
}

export interface GrowthPoint {
  node: string;
  kernel: string;
  /** Null: not a finite number. */
  error: number | null;
  local: number | null;
  amplification: number | null;
  minimal: boolean;
}

export function growthPoints(growth: readonly GrownNode[], minimal: readonly string[]): GrowthPoint[] {
  return growth.map((node) => ({
    node: node.node,
    kernel: node.kernel,
    error: finite(node.error),
    local: finite(node.local),
    amplification: finite(node.amplification),
    minimal: minimal.includes(node.node),
  }));
}

/** Where the error grows most, of those nodes that have one. */
export function steepest(points: readonly GrowthPoint[], most: number): GrowthPoint[] {
  return points
    .filter((point) => (point.amplification ?? 0) > 1)
    .sort((a, b) => (b.amplification ?? 0) - (a.amplification ?? 0))
    .slice(0, most);
}
