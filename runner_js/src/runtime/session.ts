import type { CompiledModel } from "../compiled/generated/model";
import { DeviceFailure, wordOfLoss } from "../hal/errors";
import type { Gpu } from "../hal/gpu";
import type { HostModules } from "./api";
import type { Region } from "./flat";
import type { Allocations } from "./memory";

/** Buffers to map that wait to be used again: of few bytes, as a token has, there are many under way at a time. */
const IDLE_STAGINGS = { few: 16, many: 2 };
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

/** Everything that a model has on one device, but its kernels and the states of its sequences. */
export class Session {
  /** Weights and arenas are there. */
  present = false;
  weights: readonly GPUBuffer[] = [];
  arena: readonly GPUBuffer[] = [];
  /** Of each sequence. */
  readonly states = new Set<Held>();
  private readonly stagings: GPUBuffer[] = [];
  /** What was written last into inputs that are small. */
  private readonly held = new WeakMap<GPUBuffer, Uint8Array>();

  constructor(
    readonly gpu: Gpu,
    readonly allocations: Allocations,
    readonly model: CompiledModel,
    readonly modules: HostModules,
  ) {}

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
    const held = this.held.get(target);
    if (held?.length === bytes.length && held.every((byte, i) => byte === bytes[i])) return;
    if (bytes.length <= FEW_HELD) this.held.set(target, bytes.slice());
    else this.held.delete(target);
    this.gpu.device.queue.writeBuffer(target, 0, bytes);
  }

  /** Something else is written into an input. */
  overwritten(target: GPUBuffer): void {
    this.held.delete(target);
  }

  /** Everything but the states; nothing of it may be encoded. */
  pageOut(): void {
    for (const states of this.states) states.forgetCalls();
    for (const buffer of [...this.weights, ...this.arena]) this.allocations.destroy(buffer);
    for (const buffer of this.stagings.splice(0)) this.allocations.destroy(buffer);
    this.weights = [];
    this.arena = [];
    this.present = false;
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
    const few = buffer.size <= FEW_BYTES;
    const alike = this.stagings.filter(({ size }) => size <= FEW_BYTES === few);
    if (this.present && alike.length <= (few ? IDLE_STAGINGS.few : IDLE_STAGINGS.many)) return;
    const [oldest] = alike as [GPUBuffer];
    this.stagings.splice(this.stagings.indexOf(oldest), 1);
    this.allocations.destroy(oldest);
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
