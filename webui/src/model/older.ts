/** What was found is of texts of kernels: whether those are what lies on disk by now. */

import type { OffloadStep } from "../api/generated/results";
import type { KernelNow } from "../api/types";

export type Kernels = Readonly<Record<string, KernelNow>>;

/**
 * Kernels that are others by now than those that ran. `ran`: their digests, as results carry them; documents of earlier
 * versions carry none, and nothing can be said of theirs.
 */
export function changedSince(ran: Readonly<Record<string, string>>, now: Kernels): ReadonlySet<string> {
  return new Set(Object.keys(ran).filter((kernel) => isOther(ran[kernel], now[kernel])));
}

/** Whether a digest that is known is of another text than that on disk. */
export function isOther(ran: string | undefined, now: KernelNow | undefined): boolean {
  return ran !== undefined && now !== undefined && now.digest !== ran;
}

export const NONE: ReadonlySet<string> = new Set();

/** Of which steps of an offload the model's figure is of older texts: those after a move of such a kernel, and its own. */
export function olderSteps(steps: readonly OffloadStep[], changed: ReadonlySet<string>): boolean[] {
  let before = false;
  return steps.map((step) => {
    const own = changed.has(step.kernel);
    const older = own || (before && step.model_metric !== null);
    before ||= own && step.kept;
    return older;
  });
}

const MOST_NAMES = 3;

/** "layer_norm was changed since", of one or more kernels. */
export function editedText(changed: ReadonlySet<string>): string {
  const names = [...changed];
  const rest = names.length - MOST_NAMES;
  const told = rest > 0 ? [...names.slice(0, MOST_NAMES), `${rest} more`] : names;
  const last = told.pop() ?? "";
  return `${told.length > 0 ? `${told.join(", ")} and ${last} were` : `${last} was`} changed since`;
}

/** Names of edited kernels after some were written. */
export function editedNow(edited: readonly string[], written: Kernels): string[] {
  const added = Object.keys(written).filter((kernel) => written[kernel]?.edited && !edited.includes(kernel));
  return [...edited.filter((kernel) => written[kernel]?.edited ?? true), ...added];
}
