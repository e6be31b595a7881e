/**
 * What a verdict comes to in a few words: its worst element against its bound. backend/tapml/results/headline.py is the same for
 * reports; tests/vectors/headline.json holds both to the same words.
 */

import { number } from "./text";
import { excess, type JsonNumber, type ToleranceNumbers } from "./tolerance";

/** Beyond this an error's size tells no more. */
const OUTSIDE = 1000;

export interface Compared {
  worst: { output: number; expected: JsonNumber; got: JsonNumber; bound?: JsonNumber | null } | null;
  /** Of each output. */
  tolerances: readonly ToleranceNumbers[];
  max_abs_error: JsonNumber | null;
}

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

/** A power of ten of it, on an axis: "1e5 ×", "100 ×", "1 %". */
export function shareTick(share: number): string {
  return share > OUTSIDE ? `${share.toExponential(0).replace("+", "")} ×` : shareText(share);
}

/** The part of what it may differ by that the worst element takes; infinity for NaN where a number was expected. */
export function shareOf({ worst, tolerances, max_abs_error }: Compared): number | null {
  // Where no element differs none is the worst.
  if (worst === null) return max_abs_error === 0 ? 0 : null;
  const bound = worst.bound ?? null;
  if (Number(bound) === Number.POSITIVE_INFINITY) return null;
  if (String(worst.expected) === String(worst.got)) return 0;
  const { times } = excess(worst, tolerances[worst.output]);
  // What is no number differs by none.
  return times ?? (bound === null ? null : Number.POSITIVE_INFINITY);
}
