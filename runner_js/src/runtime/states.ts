import type { CompiledFunction, CompiledModel } from "../compiled/generated/model";
import { allPlaces } from "../compiled/generation";
import { paddedBytes } from "../hal/sizes";
import { bytesOf, describeType, elementsOf } from "../program/dtypes";
import type { Sizes } from "../program/expressions";
import type { TensorType } from "../protocol/messages";
import { TapmlError } from "./error";
import type { Buffers, Region } from "./flat";
import { Interpreter, type Watch } from "./interpret";
import type { ReadyKernel } from "./pipelines";
import { Recording } from "./record";
import { OUTPUT_USAGE, type Session } from "./session";
import { typeAt } from "./values";

/** Sizes that the calls of a function are kept recorded for. */
const KEPT_SIZES = 32;

/** A function at sizes. */
export interface Recorded {
  readonly recording: Recording;
  readonly interpreter: Interpreter;
}

/** Of a function: what its calls use now, what of it is the sequence's own, and its recordings by sizes. */
interface FunctionBuffers {
  readonly buffers: Buffers;
  readonly own: { readonly input: GPUBuffer[]; readonly output: GPUBuffer[] };
  readonly at: Map<string, Recorded>;
}

/** The states of a sequence on a device, and its calls, which are recorded with these bound. */
export class States {
  #buffers: readonly GPUBuffer[];
  readonly #functions = new Map<string, FunctionBuffers>();
  readonly #doubtful = new Set<string>();
  /** By name of an output what the last call that has it left there. */
  readonly #left = new Map<string, { buffer: GPUBuffer; type: TensorType }>();

  /** With room for so many tokens where states grow. What is in them is nothing yet. */
  constructor(
    private readonly session: Session,
    private room: number,
  ) {
    this.#buffers = this.#made(room);
    session.states.add(this);
  }

  /** Tokens that there is room for, where states grow. */
  get places(): number {
    return this.room;
  }

  get bytes(): number {
    return this.#buffers.reduce((total, { size }) => total + size, 0);
  }

  /** As before the first call; weights must be there for states that begin with some. */
  reset(): void {
    this.#encoded((encoder) => {
      this.session.model.states.forEach(({ initial }, i) => {
        const state = this.#buffers[i] as GPUBuffer;
        if (!initial) encoder.clearBuffer(state);
        else {
          const [buffer, offset] = initial;
          encoder.copyBufferToBuffer(this.session.weightBuffer(buffer), offset, state, 0, state.size);
        }
      });
    });
  }

  /** What others hold, which have room for as many tokens or fewer. */
  copy(others: States): void {
    this.#take(others.#buffers, others.places);
  }

  /** Room for more tokens, behind those that there are. What calls left in their outputs stays. */
  async grow(places: number): Promise<void> {
    const larger = await this.session.allocations.made(() => this.#made(places));
    const [before, room] = [this.#buffers, this.room];
    [this.#buffers, this.room] = [larger, places];
    this.#take(before, room);
    for (const { buffers, at } of this.#functions.values()) {
      for (const { interpreter } of at.values()) interpreter.destroy();
      at.clear();
      buffers.state = larger;
    }
    for (const buffer of before) this.session.allocations.destroy(buffer);
  }

  destroy(): void {
    this.forgetCalls();
    for (const buffer of this.#buffers) this.session.allocations.destroy(buffer);
    this.session.states.delete(this);
  }

  /** A function at sizes, recorded now or before; `bind` comes first. */
  at(name: string, kernels: readonly ReadyKernel[], sizes: Sizes): Recorded {
    const { buffers, at } = this.#function(name);
    const key = JSON.stringify(Object.entries(sizes).sort());
    const found = at.get(key);
    // A Map keeps the order of insertion: the last one used is the last.
    if (found) at.delete(key);
    const recorded = found ?? this.#record(name, kernels, sizes, buffers);
    at.set(key, recorded);
    const [oldest] = at.keys();
    if (at.size > KEPT_SIZES && oldest !== undefined) {
      at.get(oldest)?.interpreter.destroy();
      at.delete(oldest);
    }
    return recorded;
  }

  /** The same for one call that is watched: it is not kept, and whoever asked destroys it. */
  apart(name: string, kernels: readonly ReadyKernel[], sizes: Sizes, watch: Watch): Recorded {
    return this.#record(name, kernels, sizes, this.#function(name).buffers, watch);
  }

  /** Says what buffers a call's inputs and outputs are: those that it brings, or own ones of so many bytes. Gives the inputs. */
  bind(
    name: string,
    inputs: readonly (GPUBuffer | number)[],
    outputs: readonly (GPUBuffer | number)[],
  ): readonly GPUBuffer[] {
    if (this.#doubtful.delete(name)) this.#drop(name);
    const { buffers, own } = this.#function(name);
    for (const [kind, wanted] of [["input", inputs] as const, ["output", outputs] as const]) {
      wanted.forEach((one, i) => {
        buffers[kind][i] = typeof one === "number" ? this.#grown(own[kind], i, one) : one;
      });
    }
    return buffers.input;
  }

  /** An output of a call that is submitted lies in one of its own buffers. */
  leave(output: string, buffer: GPUBuffer, type: TensorType): void {
    this.#left.set(output, { buffer, type });
  }

  /** What was left in an output, as an input of that type. Throws a TapmlError. */
  leftIn(output: string, input: string, type: TensorType): Region {
    const found = this.#left.get(output);
    if (!found)
      throw new TapmlError(
        "state",
        `no call left anything in ${output}, which is to be the input ${input}`,
        "call the function that gives it, and leave it to the model",
      );
    const bytes = bytesOf(type);
    if (found.type.dtype !== type.dtype || bytesOf(found.type) !== bytes)
      throw new TapmlError(
        "input",
        `input ${input} is ${describeType(type)}, and the output ${output} of the call before ${describeType(found.type)}`,
        "give an output of the same dtype and size",
      );
    return { of: [found.buffer], index: 0, offset: 0, bytes: paddedBytes(bytes) };
  }

  /** A call that was ended in its middle leaves nothing. */
  leaveNothing(): void {
    this.#left.clear();
  }

  /** The GPU took something of a function amiss: nothing that it has is used again. */
  forget(name: string): void {
    this.#doubtful.add(name);
  }

  /** All calls, for what they are recorded with is gone. */
  forgetCalls(): void {
    for (const name of [...this.#functions.keys()]) this.#drop(name);
  }

  #function(name: string): FunctionBuffers {
    let found = this.#functions.get(name);
    if (!found) {
      const { weights, arena } = this.session;
      const buffers = { weights, arena, state: this.#buffers, input: [], output: [] };
      found = { buffers, own: { input: [], output: [] }, at: new Map() };
      this.#functions.set(name, found);
    }
    return found;
  }

  #drop(name: string): void {
    const { at, own } = this.#function(name);
    for (const { interpreter } of at.values()) interpreter.destroy();
    for (const buffer of [...own.input, ...own.output]) this.#discard(buffer);
    this.#functions.delete(name);
  }

  #record(
    name: string,
    kernels: readonly ReadyKernel[],
    sizes: Sizes,
    buffers: Buffers,
    watch: Watch | null = null,
  ): Recorded {
    const { gpu, allocations, model, modules, prepared } = this.session;
    const fn = model.functions[name] as CompiledFunction;
    const device = { device: gpu.device, allocations };
    const { left } = prepared;
    const recording = new Recording({ fn, kernels, device, buffers, left }, sizes, watch !== null);
    return { recording, interpreter: new Interpreter(recording, modules, watch) };
  }

  #made(places: number): GPUBuffer[] {
    const { model, allocations } = this.session;
    return statesOf(model, places).map((bytes) => allocations.make(bytes, OUTPUT_USAGE));
  }

  /** Rows of buffers with room for so many tokens, or fewer than here. */
  #take(given: readonly GPUBuffer[], places: number): void {
    this.#encoded((encoder) => {
      this.#buffers.forEach((to, i) => {
        const from = given[i] as GPUBuffer;
        const { outer, least, most } = rowsOf(this.session.model, i, places, this.room);
        for (let row = 0; row < outer; row++)
          encoder.copyBufferToBuffer(from, row * least, to, row * most, least);
      });
    });
  }

  #discard(buffer: GPUBuffer): void {
    for (const [output, found] of this.#left) if (found.buffer === buffer) this.#left.delete(output);
    this.session.allocations.destroy(buffer);
  }

  #grown(own: GPUBuffer[], index: number, bytes: number): GPUBuffer {
    const known = own[index];
    if (known && known.size >= bytes) return known;
    if (known) this.#discard(known);
    const made = this.session.allocations.make(bytes, OUTPUT_USAGE);
    own[index] = made;
    return made;
  }

  #encoded(encode: (encoder: GPUCommandEncoder) => void): void {
    this.session.flush();
    const { device } = this.session.gpu;
    const encoder = device.createCommandEncoder();
    encode(encoder);
    device.queue.submit([encoder.finish()]);
  }
}

/** Bytes of each state where there is room for so many tokens; for all that fit if nothing is said. */
export function statesOf(model: CompiledModel, places = mostPlaces(model)): number[] {
  return model.states.map((_, i) => paddedBytes(bytesOf(typeOf(model, i, places))));
}

/** Tokens that states which grow have room for at most; 0 where none do. */
export function mostPlaces({ generation }: CompiledModel): number {
  return generation?.places ? allPlaces(generation) : 0;
}

/** Room for at least so many tokens: as many as there are from the beginning, twice that, and so on. */
export function roomFor({ generation, symbols }: CompiledModel, tokens: number): number {
  const symbol = symbols.find(({ name }) => name === generation?.places);
  if (!symbol) return 0;
  let room = symbol.minimum;
  while (room < tokens) room *= 2;
  return Math.min(room, symbol.maximum);
}

function typeOf({ states, generation }: CompiledModel, index: number, places: number): TensorType {
  const { dtype, shape, encoding } = states[index] as CompiledModel["states"][number];
  const sizes = generation?.places ? { [generation.places]: places } : {};
  return typeAt({ dtype, shape, encoding: encoding ?? null }, sizes);
}

/** The rows of a state along what it grows by, and the bytes of each, before and after. One, of all, where it does not grow. */
function rowsOf(
  model: CompiledModel,
  index: number,
  before: number,
  after: number,
): { outer: number; least: number; most: number } {
  const axis = model.states[index]?.shape.indexOf(model.generation?.places ?? "") ?? -1;
  const [least, most] = [typeOf(model, index, before), typeOf(model, index, after)];
  const outer = axis < 0 ? 1 : elementsOf(least.shape.slice(0, axis));
  return {
    outer,
    least: axis < 0 ? paddedBytes(bytesOf(least)) : bytesOf(least) / outer,
    most: axis < 0 ? paddedBytes(bytesOf(most)) : bytesOf(most) / outer,
  };
}
