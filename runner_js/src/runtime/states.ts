import type { CompiledFunction, CompiledModel } from "../compiled/generated/model";
import { paddedBytes } from "../hal/sizes";
import { bytesOf, describeType } from "../program/dtypes";
import type { Sizes } from "../program/expressions";
import type { TensorType } from "../protocol/messages";
import { TapmlError } from "./error";
import type { Buffers, Region } from "./flat";
import { Interpreter, type Watch } from "./interpret";
import type { ReadyKernel } from "./pipelines";
import { Recording } from "./record";
import { OUTPUT_USAGE, type Session } from "./session";

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
  readonly buffers: readonly GPUBuffer[];
  private readonly functions = new Map<string, FunctionBuffers>();
  private readonly doubtful = new Set<string>();
  /** By name of an output what the last call that has it left there. */
  private readonly left = new Map<string, { buffer: GPUBuffer; type: TensorType }>();

  /** What is in them is nothing yet. */
  constructor(private readonly session: Session) {
    this.buffers = statesOf(session.model).map((bytes) => session.allocations.make(bytes, OUTPUT_USAGE));
    session.states.add(this);
  }

  get bytes(): number {
    return this.buffers.reduce((total, { size }) => total + size, 0);
  }

  /** As before the first call; weights must be there for states that begin with some. */
  reset(): void {
    this.encoded((encoder) => {
      this.session.model.states.forEach(({ initial }, i) => {
        const state = this.buffers[i] as GPUBuffer;
        if (!initial) encoder.clearBuffer(state);
        else {
          const [buffer, offset] = initial;
          encoder.copyBufferToBuffer(this.session.weightBuffer(buffer), offset, state, 0, state.size);
        }
      });
    });
  }

  /** What others hold. */
  copy(others: States): void {
    this.encoded((encoder) => {
      this.buffers.forEach((state, i) => {
        encoder.copyBufferToBuffer(others.buffers[i] as GPUBuffer, 0, state, 0, state.size);
      });
    });
  }

  destroy(): void {
    this.forgetCalls();
    for (const buffer of this.buffers) this.session.allocations.destroy(buffer);
    this.session.states.delete(this);
  }

  /** A function at sizes, recorded now or before; `bind` comes first. */
  at(name: string, kernels: readonly ReadyKernel[], sizes: Sizes): Recorded {
    const { buffers, at } = this.function(name);
    const key = JSON.stringify(Object.entries(sizes).sort());
    const found = at.get(key);
    // A Map keeps the order of insertion: the last one used is the last.
    if (found) at.delete(key);
    const recorded = found ?? this.record(name, kernels, sizes, buffers);
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
    return this.record(name, kernels, sizes, this.function(name).buffers, watch);
  }

  /** Says what buffers a call's inputs and outputs are: those that it brings, or own ones of so many bytes. Gives the inputs. */
  bind(
    name: string,
    inputs: readonly (GPUBuffer | number)[],
    outputs: readonly (GPUBuffer | number)[],
  ): readonly GPUBuffer[] {
    if (this.doubtful.delete(name)) this.drop(name);
    const { buffers, own } = this.function(name);
    for (const [kind, wanted] of [["input", inputs] as const, ["output", outputs] as const]) {
      wanted.forEach((one, i) => {
        buffers[kind][i] = typeof one === "number" ? this.grown(own[kind], i, one) : one;
      });
    }
    return buffers.input;
  }

  /** An output of a call that is submitted lies in one of its own buffers. */
  leave(output: string, buffer: GPUBuffer, type: TensorType): void {
    this.left.set(output, { buffer, type });
  }

  /** What was left in an output, as an input of that type. Throws a TapmlError. */
  leftIn(output: string, input: string, type: TensorType): Region {
    const found = this.left.get(output);
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
    this.left.clear();
  }

  /** The GPU took something of a function amiss: nothing that it has is used again. */
  forget(name: string): void {
    this.doubtful.add(name);
  }

  /** All calls, for what they are recorded with is gone. */
  forgetCalls(): void {
    for (const name of [...this.functions.keys()]) this.drop(name);
  }

  private function(name: string): FunctionBuffers {
    let found = this.functions.get(name);
    if (!found) {
      const { weights, arena } = this.session;
      const buffers = { weights, arena, state: this.buffers, input: [], output: [] };
      found = { buffers, own: { input: [], output: [] }, at: new Map() };
      this.functions.set(name, found);
    }
    return found;
  }

  private drop(name: string): void {
    const { at, own } = this.function(name);
    for (const { interpreter } of at.values()) interpreter.destroy();
    for (const buffer of [...own.input, ...own.output]) this.discard(buffer);
    this.functions.delete(name);
  }

  private record(
    name: string,
    kernels: readonly ReadyKernel[],
    sizes: Sizes,
    buffers: Buffers,
    watch: Watch | null = null,
  ): Recorded {
    const { gpu, allocations, model, modules } = this.session;
    const fn = model.functions[name] as CompiledFunction;
    const device = { device: gpu.device, allocations };
    const recording = new Recording({ fn, kernels, device, buffers }, sizes, watch !== null);
    return { recording, interpreter: new Interpreter(recording, modules, watch) };
  }

  private discard(buffer: GPUBuffer): void {
    for (const [output, found] of this.left) if (found.buffer === buffer) this.left.delete(output);
    this.session.allocations.destroy(buffer);
  }

  private grown(own: GPUBuffer[], index: number, bytes: number): GPUBuffer {
    const known = own[index];
    if (known && known.size >= bytes) return known;
    if (known) this.discard(known);
    const made = this.session.allocations.make(bytes, OUTPUT_USAGE);
    own[index] = made;
    return made;
  }

  private encoded(encode: (encoder: GPUCommandEncoder) => void): void {
    const { device } = this.session.gpu;
    const encoder = device.createCommandEncoder();
    encode(encoder);
    device.queue.submit([encoder.finish()]);
  }
}

/** Bytes of each state. */
export function statesOf({ states }: CompiledModel): number[] {
  return states.map((state) => paddedBytes(bytesOf(state)));
}
