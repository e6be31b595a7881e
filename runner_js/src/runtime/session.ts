import type { CompiledModel, Dispatch } from "../compiled/generated/model";
import type { Gpu } from "../hal/gpu";
import type { HostModules, RunOptions } from "./api";
import type { Launches, Region } from "./flat";
import type { Allocations } from "./memory";
import { fitsTogether, MOST_BYTES, Together, type Writes } from "./together";

/** Buffers to map that wait to be used again: of few bytes, as a token has, there are many under way at a time. */
const IDLE_STAGINGS = { few: 32, many: 2 };
const FEW_BYTES = 4096;
/** Of an input that is compared before it is written again: a write costs the host as much as some dispatches. */
const FEW_HELD = 64;

const STORAGE = 0x80; // GPUBufferUsage.STORAGE
const COPY_SRC = 0x4;
const COPY_DST = 0x8;
const MAP_READ = 0x1;
/** Of buffers that are copied to, and mapped. */
export const STAGING_USAGE = MAP_READ | COPY_DST;
export const OUTPUT_USAGE = STORAGE | COPY_SRC | COPY_DST;

/** The states of a sequence, and its calls, which are recorded with the weights and arenas of a session. */
interface Held {
  readonly bytes: number;
  forgetCalls(): void;
}

/** What launches that read nothing but weights wrote when these had come, and what that leaves to do of dispatches. */
export interface Prepared {
  readonly left: ReadonlyMap<Dispatch, Launches>;
  readonly buffers: readonly GPUBuffer[];
  readonly bytes: number;
}

export const UNPREPARED: Prepared = { left: new Map(), buffers: [], bytes: 0 };

/** Everything that a model has on one device, but its kernels and the states of its sequences. */
export class Session {
  /** Weights and arenas are there. */
  present = false;
  weights: readonly GPUBuffer[] = [];
  arena: readonly GPUBuffer[] = [];
  prepared: Prepared = UNPREPARED;
  /** Of each sequence. */
  readonly states = new Set<Held>();
  readonly #stagings: GPUBuffer[] = [];
  /** Of calls that go to the GPU together: small ones that are encoded, and not submitted yet, and what is written for them. */
  #open: Together | null = null;
  #uploads: GPUBuffer | null = null;
  /** What was written last into inputs that are small. */
  readonly #held = new WeakMap<GPUBuffer, Uint8Array>();

  constructor(
    readonly gpu: Gpu,
    readonly allocations: Allocations,
    readonly model: CompiledModel,
    readonly modules: HostModules,
  ) {
    // What is encoded may use it.
    allocations.beforeDestroy = () => this.flush();
  }

  get bytes(): { weights: number; arenas: number; states: number; other: number } {
    const sum = (buffers: readonly { size: number }[]) =>
      buffers.reduce((total, { size }) => total + size, 0);
    const states = [...this.states].reduce((total, { bytes }) => total + bytes, 0);
    const [weights, arenas] = [sum(this.weights), sum(this.arena)];
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

  /** An input's bytes are these from now on. */
  write(target: GPUBuffer, bytes: Uint8Array<ArrayBuffer>): void {
    if (this.changes(target, bytes)) this.gpu.device.queue.writeBuffer(target, 0, bytes);
  }

  /** The same, of who writes them: whether they have to be written. */
  changes(target: GPUBuffer, bytes: Uint8Array<ArrayBuffer>): boolean {
    const held = this.#held.get(target);
    if (held?.length === bytes.length && held.every((byte, i) => byte === bytes[i])) return false;
    if (bytes.length <= FEW_HELD) this.#held.set(target, bytes.slice());
    else this.#held.delete(target);
    return true;
  }

  /** Where a call is encoded that others follow (`more`), or that follows some, if it is a small one. */
  together(writes: Writes, read: readonly Region[], { more }: RunOptions): Together | null {
    if (!this.#open?.hasRoom(writes, read)) this.flush();
    if (!this.#open && more && fitsTogether(writes, read)) this.#open = new Together(this);
    return this.#open;
  }

  /** Submits what is encoded. */
  flush(): void {
    const open = this.#open;
    this.#open = null;
    open?.submit();
  }

  /** A buffer to write what calls are given, from where it is copied. */
  upload(): GPUBuffer {
    this.#uploads ??= this.allocations.make(MOST_BYTES, COPY_SRC | COPY_DST);
    return this.#uploads;
  }

  /** Something else is written into an input. */
  overwritten(target: GPUBuffer): void {
    this.#held.delete(target);
  }

  /** Everything but the states; nothing of it may be encoded. */
  pageOut(): void {
    for (const states of this.states) states.forgetCalls();
    for (const buffer of [...this.weights, ...this.arena, ...this.prepared.buffers])
      this.allocations.destroy(buffer);
    for (const buffer of this.#stagings.splice(0)) this.allocations.destroy(buffer);
    if (this.#uploads) this.allocations.destroy(this.#uploads);
    this.#uploads = null;
    this.weights = [];
    this.arena = [];
    this.prepared = UNPREPARED;
    this.present = false;
  }

  /** A buffer to copy to and map. */
  takeStaging(bytes: number): GPUBuffer {
    const found = this.#stagings.findIndex(({ size }) => size >= bytes);
    if (found >= 0) return this.#stagings.splice(found, 1)[0] as GPUBuffer;
    return this.allocations.make(bytes, STAGING_USAGE);
  }

  giveStaging(buffer: GPUBuffer): void {
    // One that waits to be mapped is of use again as soon as it need not be.
    buffer.unmap();
    this.#stagings.push(buffer);
    const few = buffer.size <= FEW_BYTES;
    const alike = this.#stagings.filter(({ size }) => size <= FEW_BYTES === few);
    if (this.present && alike.length <= (few ? IDLE_STAGINGS.few : IDLE_STAGINGS.many)) return;
    const [oldest] = alike as [GPUBuffer];
    this.#stagings.splice(this.#stagings.indexOf(oldest), 1);
    this.allocations.destroy(oldest);
  }
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
