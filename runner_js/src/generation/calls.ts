/** Calls of a model that generates, and what they give. */
import type { DecoderFunction, DecoderInput, DecoderModel } from "./api";
import { GenerationError } from "./error";
import { factsOf } from "./options";
import type { Part } from "./schedule";

type Facts = NonNullable<DecoderModel["generation"]>;
type Blocks = NonNullable<Facts["blocks"]>;

export type Signal = AbortSignal | undefined;
export type Outputs = Record<string, unknown>;
/** Tokens that follow one another, or the one that the call before chose, where that is. */
export type Ids = readonly number[] | { output: string };
/** What follows a token: the one that the model chose itself, or logits. */
export type Row = number | Float32Array;
export type Rows = (at: number) => Row;
/** What an encoder left. */
export type Given = Readonly<Record<string, DecoderInput>>;

const ints = (values: Iterable<number>, rows?: number) => {
  const data = Int32Array.from(values);
  return { data, shape: rows ? [rows, data.length / rows] : [data.length] };
};

/** Tokens of one text, or of several that are in a call together: for each part of them that wants it what follows. */
interface Tokens {
  ids: Ids;
  positions: readonly number[];
  last: readonly number[];
  /** Where the texts of each lie; those of a text that is alone are the first ones. */
  blocks?: readonly number[];
}

/** How a call is made. */
interface Making {
  /** Outputs that stay on the device. */
  readonly unread: readonly string[];
  readonly signal?: Signal;
  /** Another call comes right behind it. */
  readonly more?: boolean;
}

/** With tokens that stand from `begin` on, for what follows the last of them, or of several `rows` each. */
export function run(
  model: DecoderModel,
  name: string,
  ids: Ids,
  begin: number,
  rows: number,
  making: Making,
  also: Given,
): Promise<Outputs> {
  const places = [...("output" in ids ? [0] : ids).keys()];
  const last = rows > 1 ? places : places.slice(-1);
  const tokens = { ids, positions: places.map((at) => begin + at), last };
  return call(model, name, { ...inputs(model, tokens), ...also }, making);
}

/** With tokens of several texts, for what follows each part that wants it; those of `output` where it says so. */
export function runParts(
  model: DecoderModel,
  name: string,
  parts: readonly Part[],
  output: string | null,
  unread: readonly string[],
): Promise<Outputs> {
  const { capacity, blocks: of } = factsOf(model) as Facts & { blocks: Blocks };
  const ids: number[] = [];
  const positions: number[] = [];
  const last: number[] = [];
  const blocks: number[] = [];
  for (const { line, position, count, wanted } of parts) {
    ids.push(...line.tokens.slice(position, position + count));
    for (let at = position; at < position + count; at++) {
      positions.push(at);
      for (let place = 0; place < capacity / of.size; place++) blocks.push(line.blocks[place] ?? 0);
    }
    if (wanted) last.push(positions.length - 1);
  }
  if (!last.length) last.push(positions.length - 1);
  const tokens = { ids: output === null ? ids : { output }, positions, last, blocks };
  return call(model, name, inputs(model, tokens), { unread });
}

/** What is drawn of the logits of the call before. `text`: its tokens, where none was drawn before. -1: nothing is sure. */
export async function runDraw(
  model: DecoderModel,
  before: Promise<Outputs>,
  asked: Int32Array,
  text: Int32Array | null,
  signal: Signal,
  more: boolean,
): Promise<number> {
  const seen = text ? ints(text) : { output: "seen" };
  const given = { logits: { output: "logits" }, seen, asked: ints(asked) };
  const making = { unread: ["next", "seen"], signal, more };
  const made = call(model, factsOf(model).draw as string, given, making);
  const [{ drawn }] = await Promise.all([made, before]);
  return (drawn as Int32Array)[0] as number;
}

function inputs(model: DecoderModel, { ids, positions, last, blocks }: Tokens): Given {
  const { capacity, blocks: of } = factsOf(model);
  const count = positions.length;
  const columns = of ? capacity / of.size : 0;
  const table = blocks ?? Array.from({ length: count * columns }, (_, at) => at % columns);
  return {
    input_ids: "output" in ids ? ids : ints(ids, 1),
    positions: ints(positions),
    last: ints(last),
    ...(of ? { [of.input]: ints(table, count) } : {}),
  };
}

function call(
  model: DecoderModel,
  name: string,
  given: Given,
  { unread, signal, more }: Making,
): Promise<Outputs> {
  const outputs = Object.fromEntries(unread.map((output) => [output, "unread" as const]));
  return (model.functions[name] as DecoderFunction).run(given, { signal, outputs, more });
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
