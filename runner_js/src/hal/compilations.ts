import { describeBytes } from "../program/bytes";
import type { ErrorReport } from "../protocol/messages";
import type { Gpu } from "./gpu";
import { within } from "./within";

/** Compilations under way at a time: browsers compile on several threads, and a pipeline may take a second. */
const MOST_UNDER_WAY = 8;
/** What compilations may add to this process's memory: a text of a few lines can ask for all of a machine's. */
const MOST_BYTES = 4e9;
/** A clock that was late by more than this stood still with its machine or its thread. */
const LATE_TICKS = 2;

/** Whom one call tells that the compilation of a kernel begins; settles when word of it is on its way. */
export type Announce = (kernel: string) => Promise<void>;

/**
 * Compiles a few kernels at a time and finds the one that never ends: nothing stops a compilation, so its GPU device
 * counts as lost then.
 *
 * The watchdog is over each compilation from its begin, and every end of another renews it: what waits for a thread or a
 * core is not to blame. The last one under way is named. Where several are, none is: whoever asked compiles each by
 * itself then.
 *
 * In some runtimes (node, Deno) compiling takes the very thread that runs this. Each compilation is announced before
 * it begins, and begins by itself: where nothing is heard any more, it is the last that was announced.
 */
export class Compilations {
  private readonly underWay: { kernel: string }[] = [];
  private readonly waiting: (() => void)[] = [];
  private beginning: Promise<unknown> = Promise.resolve();
  private seconds = Number.POSITIVE_INFINITY;
  private announce: Announce = () => Promise.resolve();
  private announced = "";
  private spent = 0;
  private bytesBefore = 0;
  private clock: ReturnType<typeof setInterval> | undefined;

  /** `memory`: bytes of the process that compiles, where this is it. */
  constructor(
    private readonly gpu: Gpu,
    private readonly memory: () => number = () => 0,
  ) {}

  /** For one call: how long a compilation may take, and who is told of its begin. */
  expect(seconds: number, announce: Announce): void {
    this.seconds = seconds;
    this.announce = announce;
    this.announced = "";
  }

  /** `compile` begins when it is called; what comes before its first `await` may take this thread for long. */
  async run<T>(kernel: string, compile: () => Promise<T>): Promise<T> {
    while (this.underWay.length >= MOST_UNDER_WAY) {
      await new Promise<void>((resolve) => this.waiting.push(resolve));
    }
    const one = { kernel };
    this.underWay.push(one);
    this.watch();
    try {
      return await this.begin(kernel, compile);
    } finally {
      this.underWay.splice(this.underWay.indexOf(one), 1);
      this.spent = 0;
      if (!this.underWay.length) this.rest();
      this.waiting.shift()?.();
    }
  }

  /** The only one under way is to blame where the device is lost. */
  get culprit(): Partial<ErrorReport> {
    const kernels = this.kernels;
    return kernels.length === 1 ? { kernel: kernels[0] as string } : {};
  }

  private get kernels(): string[] {
    return [...new Set(this.underWay.map(({ kernel }) => kernel))];
  }

  /** One begin after the other, so that the last that was announced is the one that has the thread. */
  private begin<T>(kernel: string, compile: () => Promise<T>): Promise<T> {
    const begun = this.beginning.then(async () => {
      if (this.announced !== kernel) await this.announce(kernel);
      this.announced = kernel;
      this.gpu.throwIfLost();
      const start = performance.now();
      const compiling = compile();
      const took = (performance.now() - start) / 1000;
      // Nobody could say so before.
      if (took > this.seconds) this.giveUp([kernel], this.late);
      return { compiling };
    });
    this.beginning = begun.catch(() => {});
    return begun.then(({ compiling }) => compiling);
  }

  private watch(): void {
    if (this.clock !== undefined) return;
    this.spent = 0;
    this.bytesBefore = this.memory();
    const tick = Math.min(0.5, this.seconds / 4);
    let last = performance.now();
    this.clock = setInterval(() => {
      const now = performance.now();
      this.spent += Math.min((now - last) / 1000, LATE_TICKS * tick);
      last = now;
      if (this.spent >= this.seconds) this.giveUp(this.kernels, this.late);
      else if (this.memory() - this.bytesBefore > MOST_BYTES) {
        this.giveUp(this.kernels, `took more than ${describeBytes(MOST_BYTES)} of memory`);
      }
    }, 1000 * tick);
  }

  private rest(): void {
    clearInterval(this.clock);
    this.clock = undefined;
  }

  private get late(): string {
    return `did not end within ${this.seconds} s`;
  }

  private giveUp(kernels: readonly string[], why: string): void {
    this.rest();
    const [first, ...others] = kernels;
    const culprit = first !== undefined && !others.length ? { kernel: first } : {};
    const what = others.length ? `one of the kernels ${kernels.join(", ")}` : `kernel ${first ?? ""}`;
    this.gpu.markLost("hung", `compiling ${what} ${why}: the GPU device is lost`, culprit);
  }
}

/** For the smallest kernel, on a machine that is busy. */
const SMALLEST_SECONDS = 15;

/**
 * Does any compilation end? One that never does may hold what all of them need, for as long as its process lives; then
 * none of the kernels that come later is to blame.
 */
export function canCompile(device: GPUDevice): Promise<boolean> {
  // Not to be found in any cache.
  const code = `@compute @workgroup_size(1) fn main() { _ = ${Math.random()}; }`;
  const compute = { module: device.createShaderModule({ code }), entryPoint: "main" };
  const compiled = device.createComputePipelineAsync({ layout: "auto", compute });
  return within(
    compiled.then(() => true),
    1000 * SMALLEST_SECONDS,
    () => false,
  );
}
