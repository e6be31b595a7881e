/** The sentence "A quick brown fox jumps over the lazy dog near the river bank." */
export const INPUT_IDS = [TOKENS];
export const NAMES = ["input_ids", "attention_mask", "token_type_ids"];

/** The inputs by name, as `made` makes them of numbers. */
export function inputs(made) {
  const values = [INPUT_IDS, INPUT_IDS.map(() => 1), INPUT_IDS.map(() => 0)];
  return Object.fromEntries(NAMES.map((name, i) => [name, made(values[i])]));
}
