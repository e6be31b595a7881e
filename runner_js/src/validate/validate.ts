import { comparedRefs } from "../compare/tolerances";
import type { CallContext, Engine } from "../engine/engine";
import type { KernelState, LoadedKernel } from "../engine/kernels";
import { toErrorReport } from "../hal/errors";
import { bytesOf } from "../program/dtypes";
import type { ErrorReport, Test, TestVerdict, ValidateParams, ValidateResult } from "../protocol/messages";
import { BATCH_LIMITS, BatchPlanner } from "./batches";
import { obstacle } from "./prepare";
import { fetchBatch, type Job, releaseBatch, runBatch } from "./test_batch";
import { Waves } from "./waves";

/**
 * Runs carved tests, a wave of kernels after the other. Every test gets exactly one verdict, unless the call is aborted
 * or the device is lost: then the test that was to blame has its verdict, if it is known, and the others are for another
 * device.
 */
export async function validate(call: CallContext, params: ValidateParams): Promise<ValidateResult> {
  const start = performance.now();
  const run = new Run(call, params.tests);
  try {
    await run.all(new Waves(params.kernels, params.tests));
  } catch (cause) {
    if (call.signal.aborted) throw cause;
    const error = toErrorReport(cause);
    const guilty = error.kind === "device-lost" ? (test: Test) => test.id === error.test : () => true;
    for (const test of [...run.waiting].filter(guilty)) run.report(test, withoutRun(test, error));
    throw cause;
  }
  return { seconds: { ...run.seconds, total: (performance.now() - start) / 1000 } };
}

class Run {
  readonly seconds = { fetch: 0, compile: 0, upload: 0, run: 0, compare: 0 };
  readonly waiting: Set<Test>;
  private readonly planner = new BatchPlanner<Job>();

  constructor(
    private readonly call: CallContext,
    tests: readonly Test[],
  ) {
    this.waiting = new Set(tests);
  }

  readonly report = (test: Test, verdict: TestVerdict): void => {
    if (this.waiting.delete(test)) this.call.progress(verdict);
  };

  async all(waves: Waves): Promise<void> {
    const { engine, signal } = this.call;
    for (const test of waves.without) this.ready(test, undefined);
    let before = 0;
    for (let wave = waves.next(); wave; wave = waves.next()) {
      const began = performance.now();
      // The first bytes arrive while the kernels compile.
      loadEarly(engine, wave.tests, signal);
      const states = await engine.kernels.load(wave.kernels, this.call, { before, total: waves.total });
      before += wave.kernels.length;
      const took = (performance.now() - began) / 1000;
      this.seconds.compile += took;
      waves.took(took, wave.kernels.length);
      this.planner.add(this.jobs(wave.tests, states));
      await this.batches();
    }
  }

  private jobs(tests: readonly Test[], states: Map<string, KernelState>): Job[] {
    const counted = new Set<string>();
    return tests.flatMap((test) => {
      const kernel = this.ready(test, states.get(test.kernel));
      if (!kernel) return [];
      // A kernel's compilation is booked on its first test.
      const compile = counted.has(test.kernel) ? 0 : kernel.seconds;
      counted.add(test.kernel);
      return [{ test, kernel, compile }];
    });
  }

  /** The kernel that the test can run with; null where it has its verdict already. */
  private ready(test: Test, state: KernelState | undefined): LoadedKernel | null {
    const error = obstacle(this.call.engine, test, state);
    if (!error && state && !("error" in state)) return state;
    this.report(test, withoutRun(test, error ?? { kind: "internal", message: "no kernel" }));
    return null;
  }

  private async batches(): Promise<void> {
    const { engine, hangSeconds, signal } = this.call;
    const fetchNext = () => {
      const batch = this.planner.next();
      return batch && fetchBatch(engine, batch, signal);
    };
    let next = fetchNext();
    while (next) {
      const waited = performance.now();
      const batch = await next;
      const fetchSeconds = (performance.now() - waited) / 1000;
      // The next batch's bytes arrive while this one runs.
      next = fetchNext();
      try {
        signal.throwIfAborted();
        engine.gpu.throwIfLost();
        const spent = await runBatch(engine, batch, fetchSeconds, hangSeconds, this.report, signal);
        this.planner.took(spent.upload + spent.run, batch.length);
        this.seconds.fetch += fetchSeconds;
        this.seconds.upload += spent.upload;
        this.seconds.run += spent.run;
        this.seconds.compare += spent.compare;
      } catch (cause) {
        // What was pinned for the batch under way is let go when it arrives.
        void next?.then((prefetched) => releaseBatch(engine, prefetched));
        throw cause;
      } finally {
        releaseBatch(engine, batch);
      }
    }
  }
}

/** Starts loading what the first tests need; who asks for it later gets it, or its failure. */
function loadEarly(engine: Engine, tests: readonly Test[], signal: AbortSignal): void {
  let bytes = 0;
  for (const test of tests) {
    for (const ref of [...test.inputs, ...comparedRefs(test)]) {
      bytes += bytesOf(ref);
      if (bytes > BATCH_LIMITS.bytes) return;
      if (!engine.cache.has(ref.digest))
        void engine.blobs.load(ref.digest, bytesOf(ref), signal).catch(() => {});
    }
  }
}

/** The verdict of a test that did not run to its end. */
export function withoutRun(test: Test, error: ErrorReport): TestVerdict {
  return {
    kind: "verdict",
    id: test.id,
    kernel: test.kernel,
    variant: error.variant ?? null,
    verdict: error.kind === "unsupported" ? "unsupported" : "error",
    outputs: [],
    message: error.message,
    error,
    seconds: { fetch: 0, compile: 0, run: 0, compare: 0 },
  };
}
