/** Which token follows, of logits. backend/tapml/generation/sampling.py is the same; tests/vectors/sampling.json holds both. */
import type { SamplingOptions } from "./api";
import { GenerationError, refused } from "./error";
import { uniform } from "./random";

/** The token for `position`, where those of `seen` are in the text. */
export type Choose = (logits: Float32Array, seen: Iterable<number>, position: number) => number;

/** Scores that are found faster by insertion than by sorting all. */
const FEW = 500;
/** Of what logits are divided by: they stay finite. */
const [LEAST, MOST] = [1e-6, 1e6];
const OF_DRAWS = ["temperature", "topK", "topP", "seed"] as const;

/** Whether the most likely token of the logits as they are is what is asked for. */
export function isPlainlyGreedy({ greedy = false, repetitionPenalty = 1 }: SamplingOptions): boolean {
  return greedy && repetitionPenalty === 1;
}

/** Throws a GenerationError for an option beyond its range. */
export function chooser(options: SamplingOptions): Choose {
  const { greedy = false, temperature = 1, topK, topP = 1, repetitionPenalty = 1, seed = 0 } = options;
  if (typeof greedy !== "boolean") throw refused(`greedy is ${greedy}`, "give true or false");
  const idle = greedy && OF_DRAWS.find((name) => options[name] !== undefined);
  if (idle)
    throw refused(`greedy takes the most likely token, and ${idle} is for draws`, "leave one of them out");
  inRange(temperature, "temperature", "for the most likely token give greedy");
  inRange(repetitionPenalty, "repetitionPenalty", "1 changes nothing");
  if (topK !== undefined && !(Number.isSafeInteger(topK) && topK >= 1))
    throw refused(`topK is ${topK}`, "give a whole number from 1, or leave it out for all tokens");
  if (!(topP > 0 && topP <= 1)) throw refused(`topP is ${topP}`, "give a number above 0 and at most 1");
  if (!(Number.isSafeInteger(seed) && seed >= 0))
    throw refused(`seed is ${seed}`, "give a whole number from 0 to 2^53 - 1");
  return (logits, seen, position) => {
    if (isPlainlyGreedy(options)) return mostLikely(logits, position);
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

/** A token that a model chose itself for `position`. Throws a GenerationError for what says that there is none. */
export function chosen(id: number, position: number): number {
  if (id < 0) throw noNumbers(position, `that of token ${-1 - id} is infinite or NaN`);
  return id;
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

/** What is drawn of all tokens costs a page milliseconds where there are 100,000: no lists are made of them. */
function drawn(
  scores: Float64Array,
  position: number,
  topK: number | undefined,
  topP: number,
  random: number,
): number {
  const best = scores[mostLikely(scores, position)] as number;
  const weights = new Float64Array(scores.length);
  for (let id = 0; id < scores.length; id++) weights[id] = Math.exp((scores[id] as number) - best);
  let kept = topK !== undefined && topK < scores.length ? mostLikelyOnes(scores, topK) : null;
  let total = 0;
  for (let at = 0; at < (kept ?? scores).length; at++)
    total += weights[kept ? (kept[at] as number) : at] as number;
  if (topP < 1) {
    const ranked = kept ?? nucleusOrMore(scores, weights, topP, total);
    const enough = topP * total;
    let count = 0;
    for (total = 0; count < ranked.length && (total < enough || !count); count++)
      total += weights[ranked[count] as number] as number;
    kept = ranked.slice(0, count);
  }
  let [sum, last] = [0, 0];
  for (let at = 0; at < (kept ?? scores).length; at++) {
    const id = kept ? (kept[at] as number) : at;
    const weight = weights[id] as number;
    sum += weight;
    if (sum > random * total) return id;
    if (weight > 0) last = id;
  }
  return last;
}

/** Ids of the best scores, the best first, of equal ones the lowest first. */
function mostLikelyOnes(scores: Float64Array, count: number): number[] {
  const least = count <= FEW ? leastOfBest(scores, count) : (descending(scores)[count - 1] as number);
  return ranked(scores, least).slice(0, count);
}

/** Ranked ids of which the first are as likely as `topP` together: without those that cannot be among them. */
function nucleusOrMore(scores: Float64Array, weights: Float64Array, topP: number, total: number): number[] {
  // All that are less likely than this are together less likely than what is left out; half of it is for rounding.
  const least = ((1 - topP) * total) / scores.length / 2;
  let found = Number.POSITIVE_INFINITY;
  for (let id = 0; id < scores.length; id++) {
    const score = scores[id] as number;
    if ((weights[id] as number) >= least && score < found) found = score;
  }
  return ranked(scores, found);
}

function ranked(scores: Float64Array, least: number): number[] {
  const found: number[] = [];
  for (let id = 0; id < scores.length; id++) if ((scores[id] as number) >= least) found.push(id);
  // Of equal infinities the difference is NaN.
  return found.sort((a, b) => (scores[b] as number) - (scores[a] as number) || a - b);
}

/** The score of rank `count`, found by insertion: nearly all others are less than those that were found before. */
function leastOfBest(scores: Float64Array, count: number): number {
  const best = new Float64Array(count).fill(Number.NEGATIVE_INFINITY);
  for (let id = 0; id < scores.length; id++) {
    const score = scores[id] as number;
    if (!(score > (best[0] as number))) continue;
    let at = 1;
    for (; at < count && (best[at] as number) < score; at++) best[at - 1] = best[at] as number;
    best[at - 1] = score;
  }
  return best[0] as number;
}

function descending(scores: Float64Array): Float64Array {
  return scores.slice().sort().reverse();
}

function inRange(value: number, name: string, more: string): void {
  if (!(typeof value === "number" && value >= LEAST && value <= MOST))
    throw refused(`${name} is ${value}`, `give a number above 0 (${more}), from 0.000001 to 1000000`);
}

function noNumbers(position: number, what: string): GenerationError {
  const sentence = `the model's logits for position ${position} are no numbers to choose by, ${what}`;
  return new GenerationError("model", sentence, "find the operator at fault with `tapml locate`");
}
