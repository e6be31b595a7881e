/** Calls of a model that generates, and what they give. */
import type { DecoderFunction, DecoderInput, DecoderModel } from "./api";
import { GenerationError } from "./error";
import { factsOf } from "./options";

export type Signal = AbortSignal | undefined;
export type Outputs = Record<string, unknown>;
/** Tokens that follow one another, or the one that the call before chose, where that is. */
export type Ids = readonly number[] | { output: string };
/** What follows a token: the one that the model chose itself, or logits. */
export type Row = number | Float32Array;
export type Rows = (at: number) => Row;
/** What an encoder left. */
export type Given = Readonly<Record<string, DecoderInput>>;

/**
 * With tokens that stand from `begin` on, for what follows the last of them, or of several `rows` each. `unread`: logits stay
 * on the device.
 */
export function run(
  model: DecoderModel,
  name: string,
  ids: Ids,
  begin: number,
  rows: number,
  unread: boolean,
  signal: Signal,
  also: Given,
): Promise<Outputs> {
  const count = "output" in ids ? 1 : ids.length;
  const last = rows > 1 ? Int32Array.from({ length: count }, (_, at) => at) : Int32Array.of(count - 1);
  const given = {
    input_ids: "output" in ids ? ids : { data: Int32Array.from(ids), shape: [1, count] },
    positions: { data: Int32Array.from({ length: count }, (_, at) => begin + at), shape: [count] },
    last: { data: last, shape: [last.length] },
    ...also,
  };
  const outputs = unread ? { outputs: { logits: "unread" as const } } : {};
  return (model.functions[name] as DecoderFunction).run(given, { signal, ...outputs });
}

/** The tokens that a call chose itself, one for each of its rows. Throws a GenerationError where there are none. */
export function tokensOf(model: DecoderModel, outputs: Outputs, rows: number): (at: number) => number {
  const found = outputs[factsOf(model).next as string];
  if (found instanceof Int32Array && found.length === rows) return (at) => found[at] as number;
  throw new GenerationError("model", `${model.name} chose no tokens`, "build the model again");
}

export function tokenOf(model: DecoderModel, outputs: Outputs): number {
  return tokensOf(model, outputs, 1)(0);
}

/** The logits of a call. Throws a GenerationError where there are none. */
export function logitsOf(model: DecoderModel, { logits }: Outputs, rows: number): Rows {
  const { vocabulary } = factsOf(model);
  if (logits instanceof Float32Array && logits.length === rows * vocabulary)
    return (at) => logits.subarray(at * vocabulary, (at + 1) * vocabulary);
  throw new GenerationError("model", `${model.name} gave no logits`, "build the model again");
}
