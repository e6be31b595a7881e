import type { Buffer, Buffers } from "../hal/buffers";
import type { Commands } from "../hal/commands";
import { Lru } from "../hal/lru";

/** Weights of a small model stay; those of a large one are uploaded again as they come up. */
const CAPACITY = 1 << 30;

/**
 * GPU buffers that hold the bytes of a digest and are never written. Every `acquire` pins the buffer until its
 * `release`.
 */
export class TensorCache {
  private readonly lru: Lru<Buffer>;

  constructor(
    private readonly buffers: Buffers,
    private readonly commands: Commands,
    capacity = CAPACITY,
  ) {
    this.lru = new Lru(capacity, (buffer) => buffers.free(buffer));
  }

  has(digest: string): boolean {
    return this.lru.has(digest);
  }

  /** The buffer of a digest if it is there. */
  acquire(digest: string): Buffer | undefined {
    const buffer = this.lru.get(digest);
    if (buffer !== undefined) this.lru.pin(digest);
    return buffer;
  }

  acquireOrUpload(digest: string, data: ArrayBuffer): Buffer {
    const known = this.acquire(digest);
    if (known !== undefined) return known;
    const buffer = this.buffers.allocate(data.byteLength);
    this.commands.write(buffer, 0, new Uint8Array(data));
    return this.adopt(digest, buffer);
  }

  /** Takes over a buffer whose bytes have been written, and pins it. */
  adopt(digest: string, buffer: Buffer): Buffer {
    this.lru.set(digest, buffer, buffer.bytes);
    this.lru.pin(digest);
    return buffer;
  }

  release(digest: string): void {
    this.lru.unpin(digest);
  }

  /** After an error that may have come from making this very buffer. */
  discard(digest: string): void {
    this.lru.discard(digest);
  }
}
