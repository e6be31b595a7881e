/** Which token follows, of logits. backend/tapml/generation/sampling.py is the same; tests/vectors/sampling.json holds both. */
import type { SamplingOptions } from "./api";
import { GenerationError } from "./error";
import { uniform } from "./random";

/** The token for `position`, where those of `seen` are in the text. */
export type Choose = (logits: Float32Array, seen: Iterable<number>, position: number) => number;

const OF_DRAWS = ["temperature", "topK", "topP", "seed"] as const;

/** Throws a GenerationError for an option beyond its range. */
export function chooser(options: SamplingOptions): Choose {
  const { greedy = false, temperature = 1, topK, topP = 1, repetitionPenalty = 1, seed = 0 } = options;
  if (typeof greedy !== "boolean") throw refused(`greedy is ${greedy}`, "give true or false");
  const idle = greedy && OF_DRAWS.find((name) => options[name] !== undefined);
  if (idle)
    throw refused(`greedy takes the most likely token, and ${idle} is for draws`, "leave one of them out");
  above(temperature, "temperature", "for the most likely token give greedy");
  above(repetitionPenalty, "repetitionPenalty", "1 changes nothing");
  if (topK !== undefined && !(Number.isSafeInteger(topK) && topK >= 1))
    throw refused(`topK is ${topK}`, "give a whole number from 1, or leave it out for all tokens");
  if (!(topP > 0 && topP <= 1)) throw refused(`topP is ${topP}`, "give a number above 0 and at most 1");
  if (!(Number.isSafeInteger(seed) && seed >= 0))
    throw refused(`seed is ${seed}`, "give a whole number from 0 to 2^53 - 1");
  return (logits, seen, position) => {
    if (greedy && repetitionPenalty === 1) return mostLikely(logits, position);
    const scores = Float64Array.from(logits);
    if (repetitionPenalty !== 1)
      for (const id of seen) {
        const score = scores[id] ?? 0;
        scores[id] = score > 0 ? score / repetitionPenalty : score * repetitionPenalty;
      }
    if (greedy) return mostLikely(scores, position);
    for (let id = 0; id < scores.length; id++) scores[id] = (scores[id] ?? 0) / temperature;
    return drawn(scores, position, topK, topP, uniform(seed, position));
  };
}

/** The best score's id, of equal ones the lowest. Throws a GenerationError where there is none. */
function mostLikely(scores: Float64Array | Float32Array, position: number): number {
  let best = 0;
  for (let id = 0; id < scores.length; id++) {
    const score = scores[id] as number;
    if (Number.isNaN(score)) throw noNumbers(position, `that of token ${id} is NaN`);
    if (score > (scores[best] as number)) best = id;
  }
  if (!Number.isFinite(scores[best])) throw noNumbers(position, `the largest is ${scores[best]}`);
  return best;
}

function drawn(
  scores: Float64Array,
  position: number,
  topK: number | undefined,
  topP: number,
  random: number,
): number {
  const best = scores[mostLikely(scores, position)] as number;
  const weight = (id: number) => Math.exp((scores[id] as number) - best);
  let kept = topK !== undefined && topK < scores.length ? mostLikelyOnes(scores, topK) : [...scores.keys()];
  let total = kept.reduce((sum, id) => sum + weight(id), 0);
  if (topP < 1) {
    const ranked = kept.length < scores.length ? kept.map((id) => scores[id] as number) : descending(scores);
    const enough = topP * total;
    let count = 0;
    for (total = 0; count < ranked.length && (total < enough || !count); count++)
      total += Math.exp((ranked[count] as number) - best);
    kept = kept.length < scores.length ? kept.slice(0, count) : mostLikelyOnes(scores, count);
  }
  let [sum, last] = [0, 0];
  for (const id of kept) {
    const share = weight(id);
    sum += share;
    if (sum > random * total) return id;
    if (share > 0) last = id;
  }
  return last;
}

/** Ids of the best scores, the best first, of equal ones the lowest first. */
function mostLikelyOnes(scores: Float64Array, count: number): number[] {
  // Numbers alone are sorted many times as fast as ids by their scores.
  const least = descending(scores)[count - 1] as number;
  const found = [...scores.keys()].filter((id) => (scores[id] as number) >= least);
  // Of equal infinities the difference is NaN.
  return found.sort((a, b) => (scores[b] as number) - (scores[a] as number) || a - b).slice(0, count);
}

function descending(scores: Float64Array): Float64Array {
  return scores.slice().sort().reverse();
}

function above(value: number, name: string, more: string): void {
  if (!(Number.isFinite(value) && value > 0))
    throw refused(`${name} is ${value}`, `give a number above 0 (${more})`);
}

function refused(sentence: string, fix: string): GenerationError {
  return new GenerationError("input", sentence, fix);
}

function noNumbers(position: number, what: string): GenerationError {
  const sentence = `the model's logits for position ${position} are no numbers to choose by, ${what}`;
  return new GenerationError("model", sentence, "find the operator at fault with `tapml locate`");
}
