/** Random numbers that a seed and a counter give, in no order: Philox 4x32-10 (Salmon et al., SC 2011). */

const MULTIPLIERS = [0xd2511f53n, 0xcd9e8d57n] as const;
const KEY_STEPS = [0x9e3779b9n, 0xbb67ae85n] as const;
const ROUNDS = 10;
const WORD = 0xffffffffn;

type Four = [bigint, bigint, bigint, bigint];

/** Four words of 32 bits, of a counter of four and a key of two. */
export function philox(counter: Readonly<Four>, key: readonly [bigint, bigint]): Four {
  let [a, b, c, d] = counter;
  let [left, right] = key;
  for (let round = 0; round < ROUNDS; round++) {
    const [first, second] = [MULTIPLIERS[0] * a, MULTIPLIERS[1] * c];
    [a, b, c, d] = [(second >> 32n) ^ b ^ left, second & WORD, (first >> 32n) ^ d ^ right, first & WORD];
    [left, right] = [(left + KEY_STEPS[0]) & WORD, (right + KEY_STEPS[1]) & WORD];
  }
  return [a, b, c, d];
}

/** From 0 to below 1, of 53 bits. A text that is gone on with later has the same numbers, for they belong to its positions. */
export function uniform(seed: number, position: number): number {
  const wide = BigInt(seed);
  const [high, low] = philox([BigInt(position), 0n, 0n, 0n], [wide & WORD, wide >> 32n]);
  return (Number(high >> 5n) * 2 ** 26 + Number(low >> 6n)) / 2 ** 53;
}
