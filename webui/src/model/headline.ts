/** What a verdict comes to in a few words: its worst element against its bound first, and the time that the GPU took. */

import type { TestResult } from "../api/generated/results";
import { number, seconds } from "./format";
import { excess } from "./tolerance";

/** Beyond this an error's size tells no more. */
const OUTSIDE = 1000;

/** "354 × its bound", "12 % of its bound"; null where nothing was compared or there is no bound. */
export function ofBound(result: Compared): string | null {
  const share = shareOf(result);
  return share === null ? null : timesBound(share);
}

/** "354 × its bound", "12 % of its bound" */
export function timesBound(share: number): string {
  if (share > OUTSIDE) return `more than ${number(OUTSIDE, 4)} × its bound`;
  return share > 1 ? `${shareText(share)} its bound` : `${shareText(share)} of its bound`;
}

/** "354 ×", "12 %", "> 1000 ×" */
export function shareText(share: number): string {
  if (share > OUTSIDE) return `> ${number(OUTSIDE, 4)} ×`;
  return share > 1 ? `${number(share)} ×` : `${number(share * 100, 2)} %`;
}

type Compared = Pick<TestResult, "worst" | "tolerances" | "max_abs_error">;

/** The part of what it may differ by that the worst element takes; infinity for NaN where a number was expected. */
export function shareOf({ worst, tolerances, max_abs_error }: Compared): number | null {
  // Where no element differs none is the worst.
  if (worst === null) return max_abs_error === 0 ? 0 : null;
  if (Number(worst.bound) === Number.POSITIVE_INFINITY) return null;
  if (String(worst.expected) === String(worst.got)) return 0;
  const { times } = excess(worst, tolerances[worst.output]);
  // What is no number differs by none.
  return times ?? (worst.bound === null ? null : Number.POSITIVE_INFINITY);
}

/** Whether the message is of the compiler's words alone, which are shown with their lines. */
export function repeatsDiagnostics(result: Pick<TestResult, "error" | "diagnostics">): boolean {
  return result.error?.kind === "compile" && result.diagnostics.some(({ severity }) => severity === "error");
}

/** "GPU 31 µs" where the device has timestamps. */
export function timeText(result: Pick<TestResult, "seconds">): string | null {
  const { gpu } = result.seconds;
  return gpu === undefined ? null : `GPU ${seconds(gpu)}`;
}
