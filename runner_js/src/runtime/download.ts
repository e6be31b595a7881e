import { DeviceFailure, wordOfLoss } from "../hal/errors";
import type { Gpu } from "../hal/gpu";
import type { Region } from "./flat";

const MAP_READ = 0x1; // GPUMapMode.READ

/** Buffers to copy to and map, which are used again. */
export interface Stagings {
  readonly gpu: Gpu;
  takeStaging(bytes: number): GPUBuffer;
  giveStaging(buffer: GPUBuffer): void;
}

/** What is read of a call, once it is submitted. */
export interface Reading {
  /** A copy of each region. */
  bytes(signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>[]>;
  /** Nobody reads it any more. */
  release(): void;
}

/** Copies regions out and maps them by one map: Firefox takes 80 ms for each that is awaited. */
export class Download implements Reading {
  readonly #staging: GPUBuffer | null;
  readonly #offsets: number[] = [];

  constructor(
    private readonly session: Stagings,
    private readonly regions: readonly Region[],
  ) {
    let bytes = 0;
    for (const region of regions) {
      this.#offsets.push(bytes);
      bytes += region.bytes;
    }
    this.#staging = bytes ? session.takeStaging(bytes) : null;
  }

  /** What has to be copied, and where to. */
  get parts(): [region: Region, target: GPUBuffer, offset: number][] {
    const staging = this.#staging;
    return staging ? this.regions.map((region, i) => [region, staging, this.#offsets[i] as number]) : [];
  }

  /** Copies of the bytes of each region, after the submission. */
  async bytes(signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>[]> {
    const { session } = this;
    const staging = this.#staging;
    if (!staging) return [];
    const end = (this.#offsets.at(-1) as number) + (this.regions.at(-1) as Region).bytes;
    const all = await mapped(session.gpu, staging, end, signal);
    return this.regions.map(
      ({ bytes }, i) => new Uint8Array(all.slice(this.#offsets[i], (this.#offsets[i] as number) + bytes)),
    );
  }

  release(): void {
    if (this.#staging) this.session.giveStaging(this.#staging);
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
