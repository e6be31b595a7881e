import { paddedBytes } from "../hal/sizes.ts";
import type { BufferPointer, Context } from "./tvmjs.ts";

const FILL_CHUNK = 4 << 20;

/**
 * GPU buffers in tvmjs' table. Made here and not by tvmjs, which destroys the whole device when a buffer cannot be
 * made; GPU errors go to whatever error scope is open.
 */
export class Buffers {
  private ones = new Uint8Array(0);

  constructor(private readonly context: Context) {}

  allocate(bytes: number): BufferPointer {
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    return this.context.attachToBufferTable(
      this.context.device.createBuffer({ size: paddedBytes(bytes), usage }),
    );
  }

  upload(data: ArrayBuffer): BufferPointer {
    const pointer = this.allocate(data.byteLength);
    this.write(this.gpu(pointer), data);
    return pointer;
  }

  /** A buffer of 0xFF bytes: NaN for floats, so that what a kernel leaves out is seen. */
  allocateFilled(bytes: number): BufferPointer {
    const pointer = this.allocate(bytes);
    const buffer = this.gpu(pointer);
    const size = paddedBytes(bytes);
    if (this.ones.length < Math.min(size, FILL_CHUNK)) this.ones = new Uint8Array(Math.min(size, FILL_CHUNK)).fill(0xff);
    for (let offset = 0; offset < size; offset += FILL_CHUNK) {
      this.context.device.queue.writeBuffer(buffer, offset, this.ones, 0, Math.min(FILL_CHUNK, size - offset));
    }
    return pointer;
  }

  copyOf(source: BufferPointer, bytes: number): BufferPointer {
    const pointer = this.allocate(bytes);
    const encoder = this.context.device.createCommandEncoder();
    encoder.copyBufferToBuffer(this.gpu(source), 0, this.gpu(pointer), 0, paddedBytes(bytes));
    this.context.device.queue.submit([encoder.finish()]);
    return pointer;
  }

  gpu(pointer: BufferPointer): GPUBuffer {
    return this.context.gpuBufferFromPtr(pointer);
  }

  /** Work that was submitted before still sees the buffer. */
  free(pointer: BufferPointer): void {
    this.context.deviceFreeDataSpace(pointer);
  }

  private write(buffer: GPUBuffer, data: ArrayBuffer): void {
    const { queue } = this.context.device;
    const whole = data.byteLength & ~3;
    if (whole) queue.writeBuffer(buffer, 0, data, 0, whole);
    if (whole < data.byteLength) {
      const tail = new Uint8Array(4);
      tail.set(new Uint8Array(data, whole));
      queue.writeBuffer(buffer, whole, tail);
    }
  }
}
