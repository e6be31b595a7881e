/** The room that states which grow have (`places` of a language model), and how much of it a call needs. */
import type { CompiledModel } from "../compiled/generated/model";
import type { Sizes } from "../program/expressions";
import type { Inputs, TensorInput } from "./api";
import { TapmlError } from "./error";
import { mostPlaces } from "./states";

/**
 * Tokens that there has to be room for at a call: up to the last of its positions, or of the blocks that these lie in; all that
 * fit where nobody knows these.
 */
export function tokensOf(
  model: CompiledModel,
  name: string,
  inputs: Inputs,
  /** What is captured is tested at the sizes of the suite. */
  captured: boolean,
): number {
  const { generation } = model;
  if (!generation?.places) return 0;
  const all = mostPlaces(model);
  const { prefill, decode, verify, capacity, blocks } = generation;
  if (captured || ![prefill, decode, verify].includes(name)) return all;
  const positions = elementsOf(inputs.positions);
  if (!positions) return all;
  if (blocks) {
    const table = elementsOf(inputs[blocks.input]);
    return table ? Math.min(inBlocks(positions, [...table], blocks.size), all) : all;
  }
  let last = 0;
  for (const position of positions) last = Math.max(last, Number(position));
  return Math.min(last + 1, capacity);
}

/** The sizes of a call with that of the states. Throws where the caller gives it. */
export function sizesWith(
  { generation }: CompiledModel,
  used: ReadonlySet<string>,
  places: number,
  given: Sizes = {},
): Sizes {
  const name = generation?.places;
  if (!name || !used.has(name)) return given;
  if (Object.hasOwn(given, name))
    throw new TapmlError(
      "size",
      `${name} is the room that states have`,
      "leave it out: it follows from positions",
    );
  return { ...given, [name]: places };
}

/** Up to the last of the blocks that tokens at these positions, and those before them, lie in. */
function inBlocks(
  positions: Iterable<number | bigint>,
  table: readonly (number | bigint)[],
  size: number,
): number {
  const all = [...positions];
  const columns = table.length / all.length;
  let last = 0;
  all.forEach((position, token) => {
    const used = Math.min(Math.floor(Number(position) / size) + 1, columns);
    for (let at = 0; at < used; at++) last = Math.max(last, Number(table[token * columns + at]));
  });
  return (last + 1) * size;
}

/** Null of a buffer, whose elements are on the GPU, and of what is no input. */
function elementsOf(given: TensorInput | undefined): Iterable<number | bigint> | null {
  const data = given && !ArrayBuffer.isView(given) && "data" in given ? given.data : given;
  return ArrayBuffer.isView(data) ? (data as unknown as Iterable<number | bigint>) : null;
}
