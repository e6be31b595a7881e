import { describe, expect, it } from "vitest";
import vectors from "../../../tests/vectors/sampling.json";
import type { SamplingOptions } from "./api";
import { ngrams } from "./drafts";
import { philox, uniform } from "./random";
import { chooser } from "./sampling";

type Case = (typeof vectors.cases)[number];

function logitsOf(found: Case): Float32Array {
  if (found.logits)
    return Float32Array.from(found.logits, (value) => (value === "-inf" ? -Infinity : Number(value)));
  const { count, times, plus, modulo, by } = found.formula as NonNullable<Case["formula"]>;
  return Float32Array.from({ length: count }, (_, i) => ((i * times + plus) % modulo) / by);
}

describe("is that of Python", () => {
  it("random numbers", () => {
    const wide = <T>(values: number[]) => values.map(BigInt) as T;
    for (const { counter, key, words } of vectors.philox)
      expect(philox(wide(counter), wide(key))).toEqual(wide(words));
    for (const { seed, position, bits } of vectors.uniform)
      expect(uniform(seed, position) * 2 ** 53).toBe(bits);
  });

  it("guesses by what stood before", () => {
    for (const { tokens, count, guesses } of vectors.ngrams) expect(ngrams(tokens, count)).toEqual(guesses);
  });

  it.each(vectors.cases.map((found, number) => [number, JSON.stringify(found.options), found] as const))(
    "case %i: %s",
    (_, __, found) => {
      const choose = chooser(found.options as SamplingOptions);
      const tokens = found.tokens.map((_, position) => choose(logitsOf(found), found.seen, position));
      expect(tokens).toEqual(found.tokens);
    },
  );
});
