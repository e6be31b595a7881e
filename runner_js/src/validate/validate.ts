import { comparedRefs } from "../compare/tolerances";
import type { CallContext, Engine } from "../engine/engine";
import { toErrorReport } from "../hal/errors";
import { bytesOf } from "../program/dtypes";
import type { ErrorReport, Test, TestVerdict, ValidateParams, ValidateResult } from "../protocol/messages";
import { BATCH_LIMITS, BatchPlanner } from "./batches";
import { obstacle } from "./prepare";
import { fetchBatch, type Job, releaseBatch, runBatch } from "./test_batch";

/**
 * Runs carved tests. Every test gets exactly one verdict, unless the call is aborted or the device is lost: then the
 * test that was to blame has its verdict, if it is known, and the others are for another device.
 */
export async function validate(call: CallContext, params: ValidateParams): Promise<ValidateResult> {
  const { engine, hangSeconds, progress, signal } = call;
  const start = performance.now();
  const seconds = { fetch: 0, compile: 0, upload: 0, run: 0, compare: 0, total: 0 };
  const waiting = new Set(params.tests);
  const report = (test: Test, verdict: TestVerdict) => {
    if (waiting.delete(test)) progress(verdict);
  };
  try {
    // The first bytes arrive while the kernels compile.
    loadEarly(engine, params.tests, signal);
    const states = await engine.kernels.load(params.kernels, call);
    seconds.compile = (performance.now() - start) / 1000;

    const jobs: Job[] = [];
    const counted = new Set<string>();
    for (const test of params.tests) {
      const state = states.get(test.kernel);
      const error = obstacle(engine, test, state);
      if (error || !state || "error" in state) {
        report(test, withoutRun(test, error ?? { kind: "internal", message: "no kernel" }));
        continue;
      }
      // A kernel's compilation is booked on its first test.
      const compile = counted.has(test.kernel) ? 0 : state.seconds;
      counted.add(test.kernel);
      jobs.push({ test, kernel: state, compile });
    }

    const planner = new BatchPlanner(jobs);
    const fetchNext = () => {
      const batch = planner.next();
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
        const spent = await runBatch(engine, batch, fetchSeconds, hangSeconds, report, signal);
        planner.took(spent.upload + spent.run, batch.length);
        seconds.fetch += fetchSeconds;
        seconds.upload += spent.upload;
        seconds.run += spent.run;
        seconds.compare += spent.compare;
      } catch (cause) {
        // What was pinned for the batch under way is let go when it arrives.
        void next?.then((prefetched) => releaseBatch(engine, prefetched));
        throw cause;
      } finally {
        releaseBatch(engine, batch);
      }
    }
  } catch (cause) {
    if (signal.aborted) throw cause;
    const error = toErrorReport(cause);
    const guilty = error.kind === "device-lost" ? (test: Test) => test.id === error.test : () => true;
    for (const test of [...waiting].filter(guilty)) report(test, withoutRun(test, error));
    throw cause;
  }
  seconds.total = (performance.now() - start) / 1000;
  return { seconds };
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
