/** What somebody types has a verdict where the same text was run: a kernel's digest is known of what was tried. */

import type { DeviceDocument, Diagnostic, TestResult } from "../api/generated/results";
import type { KernelDetail } from "../api/types";
import { repeatsDiagnostics } from "./headline";
import type { ResultsState } from "./results";
import { resultsOf } from "./texts";

type Texts = Pick<KernelDetail, "files" | "document">;

/** All of a kernel's texts by name, as they are shown: `unsaved` in the place of files. */
export function withUnsaved(
  detail: Texts,
  unsaved: Readonly<Record<string, string>>,
): Record<string, string> {
  const all = [...detail.files, detail.document];
  return Object.fromEntries(all.map(({ name, text }) => [name, unsaved[name] ?? text]));
}

/** The same as one text, in the files' order. */
export function textsOf(detail: Texts, unsaved: Readonly<Record<string, string>>): string {
  return JSON.stringify(Object.entries(withUnsaved(detail, unsaved)));
}

/** The digest of a kernel with these texts; undefined where it never ran with them. */
export function digestOf(
  state: Pick<ResultsState, "known">,
  kernel: string,
  texts: string,
): string | undefined {
  return state.known[kernel]?.[texts];
}

/** Devices that ran this text of a kernel; those of the running job, where it is of it. */
export function triedOn(
  state: Pick<ResultsState, "devices" | "verdicts" | "ran" | "shelf" | "kernels" | "outdated" | "job">,
  kernel: string,
  digest: string | undefined,
  running: boolean,
): DeviceDocument[] {
  return state.devices.filter(({ id }) => {
    if (running && state.job?.devices.includes(id)) return true;
    return digest !== undefined && Object.keys(resultsOf(state, id, kernel, digest)).length > 0;
  });
}

export interface Reason {
  text: string;
  /** The line of WGSL that is spoken of. */
  at: Diagnostic | null;
}

/** Why results are no passes, each reason once: tests of one kernel fail alike, and often there is one thing to mend. */
export function reasonsOf(results: readonly TestResult[]): Reason[] {
  const found = new Map<string, Reason>();
  for (const result of results) {
    if (result.verdict === "pass") continue;
    for (const at of result.diagnostics) {
      if (at.severity === "error")
        found.set(`${at.file} ${at.line} ${at.column} ${at.message}`, { text: at.message, at });
    }
    const { message } = result;
    if (message === "" || repeatsDiagnostics(result)) continue;
    // What differs from test to test are numbers: "12 of 384 elements differ".
    const key = message.replace(/\d[\d.,e+-]*/g, "#");
    if (!found.has(key)) found.set(key, { text: message, at: null });
  }
  return [...found.values()];
}
