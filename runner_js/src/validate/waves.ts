import type { Kernel, Test } from "../protocol/messages";

/** Kernels of the first wave: two, as even small machines compile two at a time. */
const FIRST = 2;
/** A wave that compiles for longer keeps the verdicts of what is compiled waiting. */
const WAVE_SECONDS = 1.5;
/** A wave is at most so many times the last one: of the kernels behind it nothing is known. */
const GROWTH = 4;

/** Some kernels, and the tests that wait for no others. */
export interface Wave {
  kernels: Kernel[];
  tests: Test[];
}

/**
 * Splits a call's kernels into those that are compiled together, before their tests run. The first verdict comes after a
 * few compilations, not after all; and no kernel is compiled while another runs, so that a device that is lost tells which
 * of them did it, and what a test takes is its own.
 */
export class Waves {
  private readonly kernels: Kernel[];
  private from = 0;
  private size = FIRST;

  constructor(
    kernels: readonly Kernel[],
    private readonly tests: readonly Test[],
  ) {
    const byName = new Map(kernels.map((kernel) => [kernel.kernel, kernel]));
    const tested = new Set(tests.map(({ kernel }) => kernel));
    const names = [...new Set([...tested, ...byName.keys()])];
    this.kernels = names.flatMap((name) => byName.get(name) ?? []);
  }

  get total(): number {
    return this.kernels.length;
  }

  /** Tests of kernels that the call does not bring. */
  get without(): Test[] {
    const names = new Set(this.kernels.map(({ kernel }) => kernel));
    return this.tests.filter(({ kernel }) => !names.has(kernel));
  }

  /** In the order of their first tests; null when none are left. */
  next(): Wave | null {
    const kernels = this.kernels.slice(this.from, this.from + this.size);
    if (!kernels.length) return null;
    this.from += kernels.length;
    const names = new Set(kernels.map(({ kernel }) => kernel));
    return { kernels, tests: this.tests.filter(({ kernel }) => names.has(kernel)) };
  }

  /** How long compiling a wave of so many kernels took. */
  took(seconds: number, kernels: number): void {
    const fitting = Math.floor((kernels * WAVE_SECONDS) / Math.max(seconds, 1e-3));
    this.size = Math.min(GROWTH * kernels, Math.max(FIRST, fitting));
  }
}
