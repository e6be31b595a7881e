import type { Buffers } from "../tvm/buffers";
import type { BufferPointer } from "../tvm/tvmjs";
import { Lru } from "./lru";

/** Weights of a small model stay; those of a large one are uploaded again as they come up. */
const CAPACITY = 1 << 30;

/**
 * GPU buffers that hold the bytes of a digest and are never written. Every `acquire` pins the buffer until its
 * `release`.
 */
export class PristineBuffers {
  private readonly lru: Lru<BufferPointer>;

  constructor(
    private readonly buffers: Buffers,
    capacity = CAPACITY,
  ) {
    this.lru = new Lru(capacity, (pointer) => buffers.free(pointer));
  }

  has(digest: string): boolean {
    return this.lru.has(digest);
  }

  /** The buffer of a digest if it is there. */
  acquire(digest: string): BufferPointer | undefined {
    const pointer = this.lru.get(digest);
    if (pointer !== undefined) this.lru.pin(digest);
    return pointer;
  }

  acquireOrUpload(digest: string, data: ArrayBuffer): BufferPointer {
    const known = this.acquire(digest);
    if (known !== undefined) return known;
    const pointer = this.buffers.upload(data);
    this.lru.set(digest, pointer, data.byteLength);
    this.lru.pin(digest);
    return pointer;
  }

  release(digest: string): void {
    this.lru.unpin(digest);
  }

  /** After an error that may have come from making this very buffer. */
  discard(digest: string): void {
    this.lru.discard(digest);
  }
}
