import { DeviceFailure } from "../hal/errors";
import { describeBytes, paddedBytes } from "../hal/sizes";
import type { BufferPointer, Context } from "./tvmjs";

/** Larger fills are copied from a buffer on the GPU, which needs no memory of the browser's for the transfer. */
const FILL_BYTES = 1 << 20;

/**
 * GPU buffers in tvmjs' table. Made here and not by tvmjs, which destroys the whole device when a buffer cannot be
 * made; GPU errors go to whatever error scope is open.
 */
export class Buffers {
  private readonly ones = new Uint8Array(FILL_BYTES).fill(0xff);
  private onesOnGpu: GPUBuffer | null = null;

  constructor(private readonly context: Context) {}

  allocate(bytes: number): BufferPointer {
    const { device } = this.context;
    const size = paddedBytes(bytes);
    if (size > device.limits.maxBufferSize) {
      const allowed = describeBytes(device.limits.maxBufferSize);
      const message = `needs a buffer of ${describeBytes(size)}, this device allows maxBufferSize ${allowed}`;
      throw new DeviceFailure({ kind: "out-of-memory", message });
    }
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    return this.context.attachToBufferTable(device.createBuffer({ size, usage }));
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
    const { device } = this.context;
    if (size <= FILL_BYTES) {
      device.queue.writeBuffer(buffer, 0, this.ones, 0, size);
      return pointer;
    }
    const source = this.filledSource();
    const encoder = device.createCommandEncoder();
    for (let offset = 0; offset < size; offset += FILL_BYTES) {
      encoder.copyBufferToBuffer(source, 0, buffer, offset, Math.min(FILL_BYTES, size - offset));
    }
    device.queue.submit([encoder.finish()]);
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

  private filledSource(): GPUBuffer {
    if (!this.onesOnGpu) {
      const usage = GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
      this.onesOnGpu = this.context.device.createBuffer({ size: FILL_BYTES, usage });
      this.context.device.queue.writeBuffer(this.onesOnGpu, 0, this.ones);
    }
    return this.onesOnGpu;
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
