import type { Buffer } from "./buffers";
import type { Commands } from "./commands";
import { wordOfLoss } from "./errors";
import { paddedBytes, sizeClass } from "./sizes";

const IDLE = 4;

/** Buffers to map, used again: making one costs more than mapping it. */
export class Stagings {
  private readonly idle: GPUBuffer[] = [];

  constructor(readonly device: GPUDevice) {}

  take(bytes: number): GPUBuffer {
    const size = sizeClass(bytes, this.device.limits.maxBufferSize);
    const known = this.idle.findIndex((buffer) => buffer.size === size);
    if (known >= 0) return this.idle.splice(known, 1)[0] as GPUBuffer;
    return this.device.createBuffer({ size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  }

  give(buffer: GPUBuffer): void {
    // What was never mapped may never have been made.
    if (buffer.mapState !== "mapped") {
      buffer.destroy();
      return;
    }
    buffer.unmap();
    this.idle.push(buffer);
    if (this.idle.length > IDLE) this.idle.shift()?.destroy();
  }
}

/**
 * Brings the contents of several buffers back by one map: Firefox takes 80 ms for each that is awaited.
 * Sizes are known from the start, so that copies can be recorded wherever the contents are right.
 */
export class Readback {
  private readonly buffers: GPUBuffer[] = [];
  private readonly places: { staging: number; offset: number; bytes: number }[] = [];
  private mapped: ArrayBuffer[] = [];

  constructor(
    private readonly stagings: Stagings,
    sizes: readonly number[],
  ) {
    const limit = stagings.device.limits.maxBufferSize;
    const stagingBytes: number[] = [];
    for (const bytes of sizes) {
      const room = paddedBytes(bytes);
      let staging = stagingBytes.length - 1;
      if (staging < 0 || (stagingBytes[staging] as number) + room > limit) staging = stagingBytes.push(0) - 1;
      const offset = stagingBytes[staging] as number;
      this.places.push({ staging, offset, bytes });
      stagingBytes[staging] = offset + room;
    }
    for (const size of stagingBytes) this.buffers.push(stagings.take(size));
  }

  /** Copies what `source` holds at this point of the queue to place `index`. */
  record(commands: Commands, index: number, source: Buffer): void {
    const place = this.place(index);
    commands.copyTo(source, this.buffers[place.staging] as GPUBuffer, place.offset);
  }

  /** Rejects after word of the device's loss, where that is why: the cause, and not its consequence, is told first. */
  async map(): Promise<void> {
    try {
      await Promise.all(this.buffers.map((buffer) => buffer.mapAsync(GPUMapMode.READ)));
    } catch (cause) {
      await wordOfLoss(this.stagings.device);
      throw cause;
    }
    this.mapped = this.buffers.map((buffer) => buffer.getMappedRange());
  }

  /** The bytes of place `index` where the GPU left them, not copied; valid until `release`. */
  bytes(index: number): Uint8Array<ArrayBuffer> {
    const place = this.place(index);
    return new Uint8Array(this.mapped[place.staging] as ArrayBuffer, place.offset, place.bytes);
  }

  release(): void {
    for (const buffer of this.buffers.splice(0)) this.stagings.give(buffer);
  }

  private place(index: number) {
    const place = this.places[index];
    if (!place) throw new RangeError(`no place ${index} to read back to`);
    return place;
  }
}
