/** What the function `draw` of a model is asked for. backend/tapml/operators/draw.py is the same, and says what it does. */
import type { DecoderModel, SamplingOptions } from "./api";
import { uniform } from "./random";

/** That top-k may leave, for the device to draw of them. */
const MOST_BEST = 960;
/** Draws that the device may leave to the page, before this draws all; and what one that it does itself is worth of them. */
const [PATIENCE, WORTH] = [4, 1 / 16];

/** How tokens of a text are drawn on the device. */
export interface Drawing {
  /** For the token of that position. */
  asked(position: number): Int32Array;
  /** The tokens of the text, a bit for each. */
  seen(): Int32Array;
  /** Whether the device may try, where it left some to the page. */
  worthwhile(): boolean;
  /** What came of one. */
  drawn(token: number): void;
}

/** Null where the page draws. `seen`: the tokens of the text, as it grows. */
export function drawingOf(
  { draw, vocabulary }: NonNullable<DecoderModel["generation"]>,
  options: SamplingOptions,
  seen: Iterable<number>,
): Drawing | null {
  const { greedy, temperature = 1, topK = 0, topP = 1, repetitionPenalty = 1, seed = 0 } = options;
  // The most likely token is the one best, whatever is drawn of that.
  const best = greedy ? 1 : topK;
  if (!draw || (best > MOST_BEST && best < vocabulary)) return null;
  const scale = 1 / temperature / Math.LN2;
  const scales = Float64Array.of(scale, scale / repetitionPenalty, scale * repetitionPenalty);
  const fixed = [
    ...new Int32Array(scales.buffer),
    best < vocabulary ? best : 0,
    topP < 1 ? Math.max(1, topP * 2 ** 32) : 0,
  ];
  let patience = PATIENCE;
  return {
    asked: (position) => Int32Array.of(...fixed, greedy ? 0 : uniform(seed, position) * 2 ** 32),
    seen() {
      const bits = new Int32Array(Math.ceil(vocabulary / 32));
      for (const id of seen) bits[id >> 5] = (bits[id >> 5] as number) | (1 << (id & 31));
      return bits;
    },
    worthwhile: () => patience >= 0,
    drawn(token) {
      patience += token < 0 ? -1 : WORTH;
    },
  };
}
