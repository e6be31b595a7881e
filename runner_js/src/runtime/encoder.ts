import { TimestampQueries } from "../hal/queries";
import { captureErrors } from "../hal/scopes";
import type { ErrorReport } from "../protocol/messages";
import type { Flat, Label, Region } from "./flat";
import type { Allocations } from "./memory";

/** Times of single dispatches, in the order in which they ran. */
export class DispatchTimer {
  readonly labels: Label[] = [];
  readonly #sets: TimestampQueries[] = [];
  #resolved = 0;

  constructor(private readonly device: GPUDevice) {}

  next(label: Label): GPUComputePassTimestampWrites {
    if (this.labels.length % TimestampQueries.most === 0) {
      this.#sets.push(new TimestampQueries(this.device, TimestampQueries.most));
    }
    this.labels.push(label);
    return (this.#sets.at(-1) as TimestampQueries).next();
  }

  /** Once, after the last dispatch. */
  resolve(encoder: GPUCommandEncoder): void {
    for (const set of this.#sets.slice(this.#resolved)) set.resolve(encoder);
    this.#resolved = this.#sets.length;
  }

  async seconds(): Promise<number[]> {
    return (await Promise.all(this.#sets.map((set) => set.seconds()))).flat();
  }

  destroy(): void {
    for (const set of this.#sets) set.destroy();
  }
}

/** Encodes one call, as few submissions as its program allows. */
export class Encoder {
  /** Of the submissions that are checked. */
  readonly errors: Promise<ErrorReport | null>[] = [];
  submissions = 0;
  #encoder: GPUCommandEncoder | null = null;
  #pass: GPUComputePassEncoder | null = null;
  #pipeline: GPUComputePipeline | null = null;
  /** Needed until the submission. */
  readonly #scratch: GPUBuffer[] = [];

  constructor(
    private readonly device: GPUDevice,
    private readonly allocations: Allocations,
    private readonly checked: boolean,
    private readonly timer: DispatchTimer | null,
  ) {}

  replay({ pipelines, bindGroups, grids, labels }: Flat, from: number, to: number): void {
    for (let i = from; i < to; i++) {
      if (this.timer) {
        this.#endPass();
        const timestampWrites = this.timer.next(labels[i] as Label);
        this.#pass = this.#encoding().beginComputePass({ timestampWrites });
      }
      this.#pass ??= this.#encoding().beginComputePass();
      const pass = this.#pass;
      const pipeline = pipelines[i] as GPUComputePipeline;
      if (pipeline !== this.#pipeline) pass.setPipeline(pipeline);
      this.#pipeline = pipeline;
      pass.setBindGroup(0, bindGroups[i] as GPUBindGroup);
      // Each argument takes the host time, thousands of times a second: those that are 1 are left out.
      const [x, y, z] = [grids[3 * i] as number, grids[3 * i + 1] as number, grids[3 * i + 2] as number];
      if (z !== 1) pass.dispatchWorkgroups(x, y, z);
      else if (y !== 1) pass.dispatchWorkgroups(x, y);
      else pass.dispatchWorkgroups(x);
    }
  }

  copy(from: Region, to: Region): void {
    this.#endPass();
    const source = from.of[from.index] as GPUBuffer;
    this.#encoding().copyBufferToBuffer(
      source,
      from.offset,
      to.of[to.index] as GPUBuffer,
      to.offset,
      to.bytes,
    );
  }

  /** To a place of a buffer that is to be mapped. */
  copyOut(from: Region, target: GPUBuffer, offset: number): void {
    this.#endPass();
    const source = from.of[from.index] as GPUBuffer;
    this.#encoding().copyBufferToBuffer(source, from.offset, target, offset, from.bytes);
  }

  set({ of, index, offset, bytes }: Region, value: number): void {
    this.#endPass();
    const target = of[index] as GPUBuffer;
    if (value === 0) {
      this.#encoding().clearBuffer(target, offset, bytes);
      return;
    }
    const source = this.allocations.make(bytes, GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST);
    this.#scratch.push(source);
    this.device.queue.writeBuffer(source, 0, new Uint32Array(bytes / 4).fill(value));
    this.#encoding().copyBufferToBuffer(source, 0, target, offset, bytes);
  }

  /** Submits what is encoded. */
  submit(): void {
    if (!this.#encoder) return;
    const captured = this.checked ? captureErrors(this.device) : null;
    this.#endPass();
    this.device.queue.submit([this.#encoder.finish()]);
    if (captured) this.errors.push(captured());
    this.#encoder = null;
    this.submissions++;
    for (const buffer of this.#scratch.splice(0)) this.allocations.destroy(buffer);
  }

  /** Throws away what is encoded. */
  drop(): void {
    this.#pass = null;
    this.#encoder = null;
    for (const buffer of this.#scratch.splice(0)) this.allocations.destroy(buffer);
  }

  resolve(timer: DispatchTimer): void {
    this.#endPass();
    timer.resolve(this.#encoding());
  }

  #encoding(): GPUCommandEncoder {
    this.#encoder ??= this.device.createCommandEncoder();
    return this.#encoder;
  }

  #endPass(): void {
    this.#pass?.end();
    this.#pass = null;
    this.#pipeline = null;
  }
}
