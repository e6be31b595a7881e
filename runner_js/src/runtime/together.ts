import { never } from "./abort";
import { mapped, type Reading, type Stagings } from "./download";
import { Encoder } from "./encoder";
import type { Region } from "./flat";
import type { Allocations } from "./memory";

const MOST_CALLS = 8;
/** Given to all calls, and as many read of them. */
export const MOST_BYTES = 1024;

/** Bytes of inputs, and where they are to be. */
export type Writes = readonly (readonly [target: GPUBuffer, bytes: Uint8Array<ArrayBuffer>])[];

interface Session extends Stagings {
  readonly allocations: Allocations;
  /** Whether an input has to be written, that is to be these bytes. */
  changes(target: GPUBuffer, bytes: Uint8Array<ArrayBuffer>): boolean;
  /** A buffer to write what calls are given, from where it is copied. */
  upload(): GPUBuffer;
}

/**
 * Small calls in one submission: what they are given comes by one write, and what is read of them by one map, for either takes
 * the host as long as many dispatches. Encoding a call waits for nothing, so that this can be submitted at any time.
 */
export class Together {
  readonly encoder: Encoder;
  #calls = 0;
  readonly #given = new Uint8Array(MOST_BYTES);
  /** Of what is written and what is read, which lie at different places of their buffers. */
  #bytes = 0;
  /** Where what is written ends. */
  #written = 0;
  #staging: GPUBuffer | null = null;
  #readers = 0;
  #submitted = false;
  readonly #done: Promise<ArrayBuffer>;
  #settle: (found: Promise<ArrayBuffer>) => void = () => {};

  constructor(private readonly session: Session) {
    this.encoder = new Encoder(session.gpu.device, session.allocations, false, null);
    this.#done = new Promise((resolve) => {
      this.#settle = resolve;
    });
    // Whoever reads is told.
    this.#done.catch(() => {});
  }

  hasRoom(writes: Writes, regions: readonly Region[]): boolean {
    return this.#calls < MOST_CALLS && fitsTogether(writes, regions, this.#bytes);
  }

  /** Encodes a call: its inputs by writes and copies, what `replay` encodes, and what is read of it. */
  add(
    writes: Writes,
    copies: readonly (readonly [from: Region, to: Region])[],
    replay: (encoder: Encoder) => void,
    regions: readonly Region[],
  ): Reading {
    for (const [target, bytes] of writes) if (this.session.changes(target, bytes)) this.#write(target, bytes);
    for (const part of copies) this.encoder.copy(...part);
    this.#calls++;
    replay(this.encoder);
    return this.#reading(regions);
  }

  submit(): void {
    const { gpu } = this.session;
    const [staging, written, bytes, readers] = [this.#staging, this.#written, this.#bytes, this.#readers];
    this.#submitted = true;
    try {
      if (written) gpu.device.queue.writeBuffer(this.session.upload(), 0, this.#given, 0, written);
      this.encoder.submit();
      // Each that reads gives up by itself.
      if (staging && readers) this.#settle(mapped(gpu, staging, bytes, never()));
    } catch (cause) {
      this.#settle(Promise.reject(cause));
    }
    if (staging && !readers) this.session.giveStaging(staging);
  }

  #write(target: GPUBuffer, bytes: Uint8Array<ArrayBuffer>): void {
    // Before the first call there is nothing that a write could overtake.
    if (!this.#calls) {
      this.session.gpu.device.queue.writeBuffer(target, 0, bytes);
      return;
    }
    const offset = this.#bytes;
    this.#given.set(bytes, offset);
    const from = { of: [this.session.upload()], index: 0, offset, bytes: bytes.length };
    this.encoder.copy(from, { of: [target], index: 0, offset: 0, bytes: bytes.length });
    this.#written = this.#bytes += bytes.length;
  }

  #reading(regions: readonly Region[]): Reading {
    if (!regions.length) return { bytes: async () => [], release: () => {} };
    this.#staging ??= this.session.takeStaging(MOST_BYTES);
    const staging = this.#staging;
    const parts = regions.map((region) => {
      const begin = this.#bytes;
      this.encoder.copyOut(region, staging, begin);
      this.#bytes += region.bytes;
      return [begin, this.#bytes] as const;
    });
    this.#readers++;
    const bytes = async (signal: AbortSignal) => {
      const all = await this.session.gpu.guard(this.#done, signal);
      return parts.map(([begin, end]) => new Uint8Array(all.slice(begin, end)));
    };
    const release = () => {
      this.#readers--;
      // Before it is submitted others may come that read.
      if (this.#submitted && !this.#readers) this.session.giveStaging(staging);
    };
    return { bytes, release };
  }
}

/** Whether a call's inputs and outputs are few bytes, with so many of others. */
export function fitsTogether(writes: Writes, regions: readonly Region[], others = 0): boolean {
  const sizes = [...writes.map(([, { length }]) => length), ...regions.map(({ bytes }) => bytes)];
  return sizes.reduce((total, one) => total + one, others) <= MOST_BYTES;
}
