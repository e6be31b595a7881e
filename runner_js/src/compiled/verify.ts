/**
 * Proves of a compiled model, for all sizes in range and before anything reaches a GPU, that it stays inside its buffers and
 * ends (docs/model-format.md, "What is proven"). What cannot be shown is refused. The twin of
 * backend/tapml/compiled/verify.py: tests/vectors/compiled.json holds both to the same sentences.
 */
import { ExpressionError, symbolsOf } from "../program/expressions";
import { Algebra, type Scope, type Value } from "./algebra";
import { bound, checkStored, storedBytes } from "./bytes";
import { formed, ModelError } from "./form";
import { proveFunction } from "./functions";
import type { CompiledModel, CompiledState, Weights } from "./generated/model";
import { allPlaces, checkGeneration } from "./generation";
import { KernelProof, once, within } from "./kernels";

export { ModelError } from "./form";

/** The document, typed and proven. Throws a ModelError: one sentence with field, or function, instruction and tensor. */
export function verified(document: unknown): CompiledModel {
  const model = formed(document);
  try {
    prove(model);
  } catch (cause) {
    throw cause instanceof ExpressionError ? new ModelError(cause.message) : cause;
  }
  return model;
}

function prove(model: CompiledModel): void {
  const algebra = new Algebra();
  once(model.symbols, (name) => `the symbol ${name} stands twice`);
  const symbols = new Map<string, Value>();
  for (const { name, minimum, maximum } of model.symbols) symbols.set(name, algebra.name(minimum, maximum));
  checkWeights(model.weights);
  checkPlaces(model);
  checkStates(model, algebra, symbols);
  const kernels = model.kernels.map((kernel) => new KernelProof(kernel, model.wgsl.length, algebra));
  const names = Object.keys(model.functions);
  if (!names.length) throw new ExpressionError("there is no function");
  for (const name of names) proveFunction(name, model, kernels, algebra, symbols);
  if (model.generation) checkGeneration(model.generation, model);
}

function checkWeights({ buffers, shards }: Weights): void {
  let [buffer, offset] = [0, 0];
  for (const [number, shard] of shards.entries()) {
    if (offset === buffers[buffer]) [buffer, offset] = [buffer + 1, 0];
    const size = buffers[buffer];
    if (shard.buffer !== buffer || shard.offset !== offset || size === undefined)
      throw new ExpressionError(
        `shard ${number} is not where the one before it ends, at buffer ${buffer}, ${offset}`,
      );
    offset += shard.stored ? 2 * shard.bytes : shard.bytes;
    if (offset > size)
      throw new ExpressionError(`shard ${number} ends at ${offset}, behind weight buffer ${buffer}`);
  }
  if (buffers.length && (buffer !== buffers.length - 1 || offset !== buffers[buffer]))
    throw new ExpressionError(`the shards end at weight buffer ${buffer}, ${offset}, and do not cover all`);
}

/** The size that sequences decide, and no call. */
function checkPlaces({ generation, symbols, functions }: CompiledModel): void {
  const places = generation?.places;
  if (!generation || !places) return;
  const symbol = symbols.find(({ name }) => name === places);
  if (!symbol) throw new ExpressionError(`generation: places: there is no symbol ${places}`);
  const most = allPlaces(generation);
  if (symbol.minimum < 1 || symbol.maximum !== most)
    throw new ExpressionError(
      `generation: places: ${places} is from ${symbol.minimum} to ${symbol.maximum}, and must be from 1 or more to ` +
        `the ${most} that fit`,
    );
  for (const [name, { inputs, outputs, tensors }] of Object.entries(functions))
    for (const [kind, ports] of Object.entries({ input: inputs, output: outputs }))
      for (const port of ports)
        if (tensors[port.tensor]?.shape.some((extent) => symbolsOf(extent).includes(places)))
          throw new ExpressionError(
            `${name}: ${kind} ${port.name} has the size ${places}, which is that of states`,
          );
}

const WORDS = ["float32", "int32", "uint32"];

/** Whoever makes room for more copies rows of it. */
function checkGrowing({ dtype, encoding, shape, initial }: CompiledState, places: string | null): void {
  const sizes = shape.filter((extent) => typeof extent === "string");
  if (!sizes.length) return;
  if (sizes.length > 1 || sizes[0] !== places)
    throw new ExpressionError(
      `its shape is [${shape.join(", ")}], and only one of its extents may be the places of generation`,
    );
  if (initial || encoding || !WORDS.includes(dtype))
    throw new ExpressionError(
      `it grows, and what grows begins with zeros and is ${WORDS.join(", ")} without an encoding`,
    );
}

function checkStates({ states, weights, generation }: CompiledModel, algebra: Algebra, symbols: Scope): void {
  const names = new Set<string>();
  for (const state of states) {
    const { name, dtype, encoding, shape, initial } = state;
    if (names.has(name)) throw new ExpressionError(`the state ${name} stands twice`);
    names.add(name);
    const bytes = within(`state ${name}`, () => {
      checkStored(dtype, encoding);
      checkGrowing(state, generation?.places ?? null);
      return algebra.value(bound(storedBytes(shape, dtype, encoding)), symbols).high;
    });
    if (initial && !(initial[1] + bytes <= (weights.buffers[initial[0]] ?? -1)))
      throw new ExpressionError(`state ${name} begins with what is in no weight buffer`);
  }
}
