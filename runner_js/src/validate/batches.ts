import { comparedRefs } from "../compare/tolerances";
import { bytesOf } from "../program/dtypes";
import type { Test } from "../protocol/messages";

export interface BatchLimits {
  /** Of new buffers, and of the bounds that come with them. */
  bytes: number;
  /** Tests of the first batch, and at most. */
  first: number;
  most: number;
}

export const BATCH_LIMITS: BatchLimits = { bytes: 64 << 20, first: 4, most: 64 };

/** Quicker than this, a batch is mostly waiting: browsers take up to 100 ms a map. */
const QUICK_SECONDS = 0.25;
/** Slower than this, verdicts come in bursts, and a cancelled call keeps the GPU busy for long. */
const SLOW_SECONDS = 1;

interface Item {
  test: Test;
  kernel: { at(sizes: Test["sizes"]): { temporaries: readonly number[] } };
}

/** Splits tests, in order, into batches that share one wait; their number follows how long the last ones took. */
export class BatchPlanner<T extends Item> {
  private from = 0;
  private tests: number;
  /** Inputs stay on the device; each is new once. */
  private readonly uploaded = new Set<string>();

  private readonly items: T[] = [];

  constructor(private readonly limits = BATCH_LIMITS) {
    this.tests = limits.first;
  }

  /** More, behind those that are left. */
  add(items: readonly T[]): void {
    this.items.splice(0, this.from);
    this.from = 0;
    this.items.push(...items);
  }

  /** Null when none are left. */
  next(): T[] | null {
    const start = this.from;
    let bytes = 0;
    for (; this.from < this.items.length && this.from - start < this.tests; this.from++) {
      const item = this.items[this.from] as T;
      const { test } = item;
      bytes += this.newBytes(item);
      if (bytes > this.limits.bytes && this.from > start) break;
      for (const input of test.inputs) this.uploaded.add(input.digest);
    }
    return this.from > start ? this.items.slice(start, this.from) : null;
  }

  /** How long a batch of so many tests took. */
  took(seconds: number, tests: number): void {
    if (seconds < QUICK_SECONDS) this.tests = Math.min(this.limits.most, Math.max(this.tests, 4 * tests));
    else if (seconds > SLOW_SECONDS) this.tests = Math.max(1, Math.floor(tests / seconds));
  }

  private newBytes({ test, kernel }: T): number {
    let bytes = kernel.at(test.sizes).temporaries.reduce((sum, temporary) => sum + temporary, 0);
    for (const input of test.inputs) if (!this.uploaded.has(input.digest)) bytes += bytesOf(input);
    for (const compared of comparedRefs(test)) bytes += bytesOf(compared);
    return bytes;
  }
}
