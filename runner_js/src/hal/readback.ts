import { paddedBytes } from "./sizes";

/**
 * Brings the contents of several buffers back by one map: Firefox takes 80 ms for each that is awaited.
 * Sizes are known from the start, so that copies can be encoded wherever the contents are right.
 */
export class Readback {
  private readonly stagings: GPUBuffer[] = [];
  private readonly places: { staging: number; offset: number; bytes: number }[] = [];
  private mapped: ArrayBuffer[] = [];

  constructor(device: GPUDevice, sizes: readonly number[]) {
    const limit = device.limits.maxBufferSize;
    const stagingBytes: number[] = [];
    for (const bytes of sizes) {
      const room = paddedBytes(bytes);
      let staging = stagingBytes.length - 1;
      if (staging < 0 || (stagingBytes[staging] as number) + room > limit) staging = stagingBytes.push(0) - 1;
      const offset = stagingBytes[staging] as number;
      this.places.push({ staging, offset, bytes });
      stagingBytes[staging] = offset + room;
    }
    for (const size of stagingBytes) {
      this.stagings.push(
        device.createBuffer({ size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST }),
      );
    }
  }

  /** Copies what `source` holds at this point of the queue to place `index`. */
  encodeCopy(encoder: GPUCommandEncoder, index: number, source: GPUBuffer): void {
    const place = this.place(index);
    const staging = this.stagings[place.staging] as GPUBuffer;
    encoder.copyBufferToBuffer(source, 0, staging, place.offset, paddedBytes(place.bytes));
  }

  async map(): Promise<void> {
    await Promise.all(this.stagings.map((staging) => staging.mapAsync(GPUMapMode.READ)));
    this.mapped = this.stagings.map((staging) => staging.getMappedRange());
  }

  /** The bytes of place `index`, valid until `destroy`. */
  bytes(index: number): Uint8Array<ArrayBuffer> {
    const place = this.place(index);
    return new Uint8Array(this.mapped[place.staging] as ArrayBuffer, place.offset, place.bytes);
  }

  destroy(): void {
    for (const staging of this.stagings) staging.destroy();
  }

  private place(index: number) {
    const place = this.places[index];
    if (!place) throw new RangeError(`no place ${index} to read back to`);
    return place;
  }
}
