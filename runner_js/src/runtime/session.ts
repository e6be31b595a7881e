import type { CompiledFunction, CompiledModel } from "../compiled/generated/model";
import { DeviceFailure, wordOfLoss } from "../hal/errors";
import type { Gpu } from "../hal/gpu";
import { paddedBytes } from "../hal/sizes";
import { bytesOf } from "../program/dtypes";
import type { Sizes } from "../program/expressions";
import type { HostModules } from "./api";
import type { Buffers, Region } from "./flat";
import { Interpreter, type Watch } from "./interpret";
import type { Allocations } from "./memory";
import type { ReadyKernel } from "./pipelines";
import { Recording } from "./record";

/** Sizes that the calls of a function are kept recorded for. */
const KEPT_SIZES = 32;
/** Buffers to map that wait to be used again. */
const IDLE_STAGINGS = 2;

const STORAGE = 0x80; // GPUBufferUsage.STORAGE
const COPY_SRC = 0x4;
const COPY_DST = 0x8;
const MAP_READ = 0x1;
/** Of buffers that are copied to, and mapped. */
export const STAGING_USAGE = MAP_READ | COPY_DST;
export const OUTPUT_USAGE = STORAGE | COPY_SRC | COPY_DST;

/** A function at sizes. */
export interface Recorded {
  readonly recording: Recording;
  readonly interpreter: Interpreter;
}

/** Of a function: what its calls use now, what of it is the model's own, and its recordings by sizes. */
interface FunctionBuffers {
  readonly buffers: Buffers;
  readonly own: { readonly input: GPUBuffer[]; readonly output: GPUBuffer[] };
  readonly at: Map<string, Recorded>;
}

/** Everything that a model has on one device, but its kernels. */
export class Session {
  readonly states: GPUBuffer[];
  /** Weights and arenas are there. */
  present = false;
  private weights: GPUBuffer[] = [];
  private arena: GPUBuffer[] = [];
  private readonly functions = new Map<string, FunctionBuffers>();
  private readonly doubtful = new Set<string>();
  private readonly stagings: GPUBuffer[] = [];

  constructor(
    readonly gpu: Gpu,
    readonly allocations: Allocations,
    private readonly model: CompiledModel,
    private readonly modules: HostModules,
  ) {
    this.states = statesOf(model).map((bytes) => allocations.make(bytes, OUTPUT_USAGE));
  }

  get bytes(): { weights: number; arenas: number; states: number; other: number } {
    const sum = (buffers: readonly GPUBuffer[]) => buffers.reduce((total, { size }) => total + size, 0);
    const [weights, arenas, states] = [sum(this.weights), sum(this.arena), sum(this.states)];
    return { weights, arenas, states, other: this.allocations.bytes - weights - arenas - states };
  }

  /** Buffers for weights, to be filled, and arenas. */
  allocate(): readonly GPUBuffer[] {
    this.weights = this.model.weights.buffers.map((bytes) => this.allocations.make(bytes, OUTPUT_USAGE));
    this.arena = arenasOf(this.model).map((bytes) => this.allocations.make(bytes, OUTPUT_USAGE));
    return this.weights;
  }

  /** A buffer of weights; calls only read it. */
  weightBuffer(index: number): GPUBuffer {
    return this.weights[index] as GPUBuffer;
  }

  /** Everything but the states; nothing of it may be encoded. */
  pageOut(): void {
    for (const name of [...this.functions.keys()]) this.drop(name);
    for (const buffer of [...this.weights, ...this.arena]) this.allocations.destroy(buffer);
    for (const buffer of this.stagings.splice(0)) this.allocations.destroy(buffer);
    this.weights = [];
    this.arena = [];
    this.present = false;
  }

  /** Each state as before the first call; weights must be there for those that begin with some. */
  resetStates(): void {
    const encoder = this.gpu.device.createCommandEncoder();
    this.model.states.forEach(({ initial }, i) => {
      const state = this.states[i] as GPUBuffer;
      if (!initial) encoder.clearBuffer(state);
      else {
        const [buffer, offset] = initial;
        encoder.copyBufferToBuffer(this.weights[buffer] as GPUBuffer, offset, state, 0, state.size);
      }
    });
    this.gpu.device.queue.submit([encoder.finish()]);
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

  /** The GPU took something of a function amiss: nothing that it has is used again. */
  forget(name: string): void {
    this.doubtful.add(name);
  }

  private function(name: string): FunctionBuffers {
    let found = this.functions.get(name);
    if (!found) {
      const { weights, arena, states: state } = this;
      const buffers = { weights, arena, state, input: [], output: [] };
      found = { buffers, own: { input: [], output: [] }, at: new Map() };
      this.functions.set(name, found);
    }
    return found;
  }

  private drop(name: string): void {
    const { at, own } = this.function(name);
    for (const { interpreter } of at.values()) interpreter.destroy();
    for (const buffer of [...own.input, ...own.output]) this.allocations.destroy(buffer);
    this.functions.delete(name);
  }

  private record(
    name: string,
    kernels: readonly ReadyKernel[],
    sizes: Sizes,
    buffers: Buffers,
    watch: Watch | null = null,
  ): Recorded {
    const fn = this.model.functions[name] as CompiledFunction;
    const device = { device: this.gpu.device, allocations: this.allocations };
    const recording = new Recording({ fn, kernels, device, buffers }, sizes, watch !== null);
    return { recording, interpreter: new Interpreter(recording, this.modules, watch) };
  }

  /** A buffer to copy to and map. */
  takeStaging(bytes: number): GPUBuffer {
    const found = this.stagings.findIndex(({ size }) => size >= bytes);
    if (found >= 0) return this.stagings.splice(found, 1)[0] as GPUBuffer;
    return this.allocations.make(bytes, STAGING_USAGE);
  }

  giveStaging(buffer: GPUBuffer): void {
    // One that waits to be mapped is of use again as soon as it need not be.
    buffer.unmap();
    this.stagings.push(buffer);
    if (this.stagings.length <= IDLE_STAGINGS && this.present) return;
    this.allocations.destroy(this.stagings.shift() as GPUBuffer);
  }

  private grown(own: GPUBuffer[], index: number, bytes: number): GPUBuffer {
    const known = own[index];
    if (known && known.size >= bytes) return known;
    if (known) this.allocations.destroy(known);
    const made = this.allocations.make(bytes, OUTPUT_USAGE);
    own[index] = made;
    return made;
  }
}

/** Copies regions out and maps them by one map: Firefox takes 80 ms for each that is awaited. */
export class Download {
  private readonly staging: GPUBuffer | null;
  private readonly offsets: number[] = [];

  constructor(
    private readonly session: Session,
    private readonly regions: readonly Region[],
  ) {
    let bytes = 0;
    for (const region of regions) {
      this.offsets.push(bytes);
      bytes += region.bytes;
    }
    this.staging = bytes ? session.takeStaging(bytes) : null;
  }

  /** What has to be copied, and where to. */
  get parts(): [region: Region, target: GPUBuffer, offset: number][] {
    const { staging } = this;
    return staging ? this.regions.map((region, i) => [region, staging, this.offsets[i] as number]) : [];
  }

  /** Copies of the bytes of each region, after the submission. */
  async bytes(signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>[]> {
    const { staging, session } = this;
    if (!staging) return [];
    const end = (this.offsets.at(-1) as number) + (this.regions.at(-1) as Region).bytes;
    const all = await mapped(session.gpu, staging, end, signal);
    return this.regions.map(
      ({ bytes }, i) => new Uint8Array(all.slice(this.offsets[i], (this.offsets[i] as number) + bytes)),
    );
  }

  release(): void {
    if (this.staging) this.session.giveStaging(this.staging);
  }
}

/** The first bytes of a buffer that was copied to. */
export async function mapped(
  gpu: Gpu,
  staging: GPUBuffer,
  bytes: number,
  signal: AbortSignal,
): Promise<ArrayBuffer> {
  const done = staging.mapAsync(MAP_READ, 0, bytes).catch(async (cause: unknown) => {
    if (signal.aborted) return;
    // The cause, and not its consequence, is told first.
    await wordOfLoss(gpu.device);
    gpu.throwIfLost();
    throw new DeviceFailure({ kind: "internal", message: `the GPU does not give its results: ${cause}` });
  });
  await gpu.guard(done, signal);
  return staging.getMappedRange(0, bytes);
}

/** Bytes of each state. */
export function statesOf({ states }: CompiledModel): number[] {
  return states.map((state) => paddedBytes(bytesOf(state)));
}

/** Bytes of each arena: calls follow each other, so that functions share them. */
export function arenasOf({ functions }: CompiledModel): number[] {
  const arenas: number[] = [];
  for (const { arena } of Object.values(functions)) {
    arena.forEach((bytes, i) => {
      arenas[i] = Math.max(arenas[i] ?? 0, bytes);
    });
  }
  return arenas;
}
