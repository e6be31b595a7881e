/** WebGPU's bound of a query set (the specification, "GPUQuerySetDescriptor"). */
const MOST_QUERIES = 4096;

/** Times calls on the GPU by timestamp queries: one pair a call, read back together. */
export class TimestampQueries {
  /** Calls that one set of queries can time. */
  static readonly most = MOST_QUERIES / 2;
  readonly #set: GPUQuerySet;
  readonly #resolved: GPUBuffer;
  readonly #staging: GPUBuffer;
  #calls = 0;

  constructor(device: GPUDevice, calls: number) {
    const count = 2 * Math.min(calls, TimestampQueries.most);
    const size = 8 * count;
    this.#set = device.createQuerySet({ type: "timestamp", count });
    this.#resolved = device.createBuffer({
      size,
      usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC,
    });
    this.#staging = device.createBuffer({ size, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
  }

  /** Calls timed so far: the place of the next one. */
  get count(): number {
    return this.#calls;
  }

  /** For the next call's pass. */
  next(): GPUComputePassTimestampWrites {
    const first = 2 * this.#calls++;
    return { querySet: this.#set, beginningOfPassWriteIndex: first, endOfPassWriteIndex: first + 1 };
  }

  resolve(encoder: GPUCommandEncoder): void {
    if (!this.#calls) return;
    encoder.resolveQuerySet(this.#set, 0, 2 * this.#calls, this.#resolved, 0);
    encoder.copyBufferToBuffer(this.#resolved, 0, this.#staging, 0, 16 * this.#calls);
  }

  /** Seconds of each call, in order; after `resolve` was submitted. */
  async seconds(): Promise<number[]> {
    if (!this.#calls) return [];
    await this.#staging.mapAsync(GPUMapMode.READ);
    const stamps = new BigUint64Array(this.#staging.getMappedRange());
    return Array.from({ length: this.#calls }, (_, i) => {
      const spent = (stamps[2 * i + 1] as bigint) - (stamps[2 * i] as bigint);
      // Some drivers give an end before its begin now and then.
      return spent > 0n ? Number(spent) / 1e9 : 0;
    });
  }

  destroy(): void {
    this.#set.destroy();
    this.#resolved.destroy();
    this.#staging.destroy();
  }
}
