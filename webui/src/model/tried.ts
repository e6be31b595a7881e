/** What somebody types has a verdict where the same text was run: a kernel's digest is known of what was tried. */

import type { DeviceDocument } from "../api/generated/results";
import type { KernelDetail } from "../api/types";
import type { ResultsState } from "./results";
import { resultsOf } from "./texts";

type Texts = Pick<KernelDetail, "files" | "document">;

/** All of a kernel's texts as they are shown: `unsaved` by name in the place of files. */
export function textsOf(detail: Texts, unsaved: Readonly<Record<string, string>>): string {
  const all = [...detail.files, detail.document];
  return JSON.stringify(all.map(({ name, text }) => [name, unsaved[name] ?? text]));
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
