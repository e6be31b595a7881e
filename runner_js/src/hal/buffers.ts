import type { ErrorReport } from "../protocol/messages";
import { DeviceFailure } from "./errors";
import { captureErrors } from "./scopes";
import { describeBytes, paddedBytes, sizeClass } from "./sizes";

/** Bytes of buffers that wait to be used again. */
const IDLE_BYTES = 256 << 20;

/** A piece of GPU memory for one purpose at a time; `id` is never used twice, so that caches cannot mistake it. */
export interface Buffer {
  readonly id: number;
  readonly gpu: GPUBuffer;
  /** What is bound and copied: whole words, not the size class that may lie behind. */
  readonly bytes: number;
  /** Of making it, where it was made for this. */
  readonly error: Promise<ErrorReport | null> | null;
}

export interface BufferStatistics {
  live: number;
  liveBytes: number;
  idle: number;
  idleBytes: number;
}

/**
 * Storage buffers by size class: making one takes the GPU process a while, and the same sizes come again and again.
 * A freed buffer may be in use again at once: the queue keeps the order. What is written by the queue itself
 * (`writeBuffer`) must come after all that was recorded has been submitted (`Commands.submit`).
 */
export class Buffers {
  private readonly idle = new Map<number, GPUBuffer[]>();
  private idleBytes = 0;
  private live = 0;
  private liveBytes = 0;
  private next = 0;

  constructor(private readonly device: GPUDevice) {}

  /** With any content. Throws a DeviceFailure of kind "out-of-memory" for more than the device allows. */
  allocate(bytes: number): Buffer {
    const size = paddedBytes(bytes);
    const most = this.device.limits.maxBufferSize;
    if (size > most) {
      const message = `needs a buffer of ${describeBytes(size)}, this device allows maxBufferSize ${describeBytes(most)}`;
      throw new DeviceFailure({ kind: "out-of-memory", message });
    }
    const room = sizeClass(size, most);
    const known = this.idle.get(room)?.pop();
    let error: Promise<ErrorReport | null> | null = null;
    let gpu = known;
    if (gpu) {
      this.idleBytes -= room;
    } else {
      const captured = captureErrors(this.device);
      const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
      gpu = this.device.createBuffer({ size: room, usage });
      error = captured();
    }
    this.live++;
    this.liveBytes += room;
    return { id: this.next++, gpu, bytes: size, error };
  }

  free(buffer: Buffer): void {
    const room = buffer.gpu.size;
    this.live--;
    this.liveBytes -= room;
    if (buffer.error) {
      // One that could not be made is no good to anybody.
      void buffer.error.then((error) => (error ? buffer.gpu.destroy() : this.keep(buffer.gpu, room)));
    } else {
      this.keep(buffer.gpu, room);
    }
  }

  /** Gives back memory beyond what is worth keeping. Call when nothing recorded waits to be submitted. */
  trim(most = IDLE_BYTES): void {
    for (const [room, buffers] of [...this.idle].sort(([a], [b]) => b - a)) {
      while (this.idleBytes > most) {
        const buffer = buffers.pop();
        if (!buffer) break;
        buffer.destroy();
        this.idleBytes -= room;
      }
    }
  }

  get statistics(): BufferStatistics {
    const idle = [...this.idle.values()].reduce((sum, buffers) => sum + buffers.length, 0);
    return { live: this.live, liveBytes: this.liveBytes, idle, idleBytes: this.idleBytes };
  }

  private keep(buffer: GPUBuffer, room: number): void {
    const buffers = this.idle.get(room);
    if (buffers) buffers.push(buffer);
    else this.idle.set(room, [buffer]);
    this.idleBytes += room;
  }
}
