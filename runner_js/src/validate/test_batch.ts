import { type Allowed, compare, judge } from "../compare/compare";
import { loadAllowed } from "../compare/tolerances";
import type { Engine } from "../engine/engine";
import type { LoadedKernel } from "../engine/kernels";
import type { Buffer } from "../hal/buffers";
import { toErrorReport } from "../hal/errors";
import { TimestampQueries } from "../hal/queries";
import { Readback } from "../hal/readback";
import { captureErrors } from "../hal/scopes";
import { bytesOf } from "../program/dtypes";
import type { Comparison, ErrorReport, TensorRef, Test, TestVerdict } from "../protocol/messages";

/** A test that can run. */
export interface Job {
  test: Test;
  kernel: LoadedKernel;
  /** Seconds of compilation that are booked on this test. */
  compile: number;
}

/** A job with its bytes. Inputs that the device holds already are pinned there and null here. */
export interface Fetched {
  job: Job;
  inputs: (ArrayBuffer | null)[];
  expected: ArrayBuffer[];
  /** Of each output that overwrites an input, what that held. */
  before: Map<number, ArrayBuffer>;
  /** What each output may differ by. */
  allowed: Allowed[];
  pinned: string[];
  /** Place of its time among the batch's timestamps. */
  timed: number | null;
  error: ErrorReport | null;
}

type Report = (test: Test, verdict: TestVerdict) => void;

/** Never rejects: a blob that is missing fails its own tests. */
export function fetchBatch(engine: Engine, jobs: readonly Job[], signal: AbortSignal): Promise<Fetched[]> {
  return Promise.all(
    jobs.map(async (job) => {
      const { test } = job;
      const load = (ref: TensorRef) => engine.blobs.load(ref.digest, bytesOf(ref), signal);
      const pinned: string[] = [];
      const inputs = test.inputs.map((ref) => {
        if (engine.cache.acquire(ref.digest) === undefined) {
          return load(ref);
        }
        pinned.push(ref.digest);
        return null;
      });
      const outputs = test.outputs.map(load);
      const overwritten = overwrittenOf(job);
      const before = overwritten.map(([, input]) => load(test.inputs[input] as TensorRef));
      const allowed = test.tolerances.map((tolerance) => loadAllowed(tolerance, load));
      const fetched: Fetched = {
        job,
        inputs: [],
        expected: [],
        before: new Map(),
        allowed: [],
        pinned,
        timed: null,
        error: null,
      };
      const settled = await Promise.allSettled([
        Promise.all(inputs),
        Promise.all(outputs),
        Promise.all(allowed),
        Promise.all(before),
      ]);
      const [gotInputs, gotOutputs, gotAllowed, gotBefore] = settled;
      if (gotInputs.status === "fulfilled") fetched.inputs = gotInputs.value;
      else fetched.error = toErrorReport(gotInputs.reason);
      if (gotOutputs.status === "fulfilled") fetched.expected = gotOutputs.value;
      else fetched.error ??= toErrorReport(gotOutputs.reason);
      if (gotAllowed.status === "fulfilled") fetched.allowed = gotAllowed.value;
      else fetched.error ??= toErrorReport(gotAllowed.reason);
      if (gotBefore.status === "fulfilled")
        fetched.before = new Map(
          overwritten.map(([output], i) => [output, gotBefore.value[i] as ArrayBuffer]),
        );
      else fetched.error ??= toErrorReport(gotBefore.reason);
      return fetched;
    }),
  );
}

/** The outputs that overwrite an input, by their places among the outputs, each with the input's among the inputs. */
function overwrittenOf({ kernel, test }: Job): [number, number][] {
  return [...kernel.overwrites].flatMap(([argument, input]): [number, number][] => {
    const output = argument - test.inputs.length;
    return test.inputs[input] && test.outputs[output] ? [[output, input]] : [];
  });
}

/** Lets go of the inputs that were pinned for a batch; its buffers may be evicted from now on. */
export function releaseBatch(engine: Engine, batch: readonly Fetched[]): void {
  for (const fetched of batch) {
    for (const digest of fetched.pinned.splice(0)) {
      engine.cache.release(digest);
      if (fetched.error) engine.cache.discard(digest);
    }
  }
}

interface Running {
  fetched: Fetched;
  /** Place of the first output in the batch's readback. */
  place: number;
  errors: Promise<ErrorReport | null>;
}

/** Runs tests that were fetched, each on its own in the queue, and reads all outputs back at once. */
export async function runBatch(
  engine: Engine,
  batch: readonly Fetched[],
  fetchSeconds: number,
  hangSeconds: number,
  report: Report,
  signal: AbortSignal,
): Promise<{ upload: number; run: number; compare: number }> {
  const { gpu, buffers, fence } = engine;
  const start = performance.now();
  const spent = { upload: 0, run: 0, compare: 0 };
  const temporary: Buffer[] = [];
  const running: Running[] = [];
  const ready = batch.filter((fetched) => !fetched.error);
  const captured = captureErrors(gpu.device);
  const readback = new Readback(
    engine.stagings,
    ready.flatMap((fetched) => fetched.job.test.outputs.map(bytesOf)),
  );
  const timer = gpu.timestamps && ready.length ? new TimestampQueries(gpu.device, ready.length) : null;
  const stagingError = captured();
  try {
    let place = 0;
    for (const fetched of ready) {
      const errors = submitTest(engine, fetched, readback, place, timer, temporary, spent);
      const { kernel, test } = fetched.job;
      void fence.submitted(() => ({ kernel: kernel.kernel, variant: kernel.variant.name, test: test.id }));
      running.push({ fetched, place, errors });
      place += fetched.job.test.outputs.length;
    }
    if (timer) engine.commands.resolve(timer);
    engine.commands.submit();
    const mapped = readback.map().then(
      () => null,
      (cause: unknown) => toErrorReport(cause),
    );
    const timed = timer ? timer.seconds().catch(() => []) : Promise.resolve([]);
    // All waits together: in Firefox each one that is awaited by itself costs 80 ms.
    const waits = Promise.all([stagingError, mapped, timed, ...running.map((test) => test.errors)]);
    const [staging, unmapped, gpuSeconds, ...errors] = await gpu.guard(
      waits,
      signal,
      fence.watchdog(hangSeconds),
    );
    spent.run = (performance.now() - start) / 1000 - spent.upload;

    const share = { fetch: fetchSeconds / batch.length, run: spent.run / Math.max(1, ready.length) };
    for (const fetched of batch)
      if (fetched.error) report(fetched.job.test, verdictOf(fetched, [], { ...share, gpu: null }, 0));
    running.forEach(({ fetched, place }, i) => {
      fetched.error ??= errors[i] ?? staging ?? unmapped ?? null;
      const compared = performance.now();
      const outputs = fetched.error ? [] : compareOutputs(engine, fetched, readback, place);
      const seconds = (performance.now() - compared) / 1000;
      spent.compare += seconds;
      const gpuTime = fetched.timed === null ? null : (gpuSeconds[fetched.timed] ?? null);
      report(fetched.job.test, verdictOf(fetched, outputs, { ...share, gpu: gpuTime }, seconds));
    });
  } finally {
    readback.release();
    timer?.destroy();
    for (const buffer of temporary) buffers.free(buffer);
    if (!gpu.lost) buffers.trim();
  }
  return spent;
}

/** Records and submits one test inside error scopes of its own. */
function submitTest(
  engine: Engine,
  fetched: Fetched,
  readback: Readback,
  place: number,
  timer: TimestampQueries | null,
  temporary: Buffer[],
  spent: { upload: number },
): Promise<ErrorReport | null> {
  const { gpu, buffers, commands, cache } = engine;
  const { test, kernel } = fetched.job;
  const make = (bytes: number) => {
    const buffer = buffers.allocate(bytes);
    temporary.push(buffer);
    return buffer;
  };
  const captured = captureErrors(gpu.device);
  const made: Buffer[] = [];
  let thrown: ErrorReport | null = null;
  try {
    const uploading = performance.now();
    const inputs = test.inputs.map((ref, i) => {
      const data = fetched.inputs[i] ?? null;
      const shared = data ? cache.acquireOrUpload(ref.digest, data) : cache.acquire(ref.digest);
      if (shared === undefined) throw new Error(`input ${ref.digest} left the device`);
      fetched.pinned.push(ref.digest);
      made.push(shared);
      if (!kernel.written.has(i)) return shared;
      // Other tests read this buffer: a kernel that writes its input works on a copy.
      const own = make(bytesOf(ref));
      commands.copy(shared, own);
      return own;
    });
    const outputs = test.outputs.map((ref) => make(bytesOf(ref)));
    const begins = new Map(overwrittenOf(fetched.job));
    for (const [i, output] of outputs.entries()) {
      const before = begins.get(i);
      if (before === undefined) commands.fill(output);
      else commands.copy(inputs[before] as Buffer, output);
    }
    const prepared = kernel.at(test.sizes);
    const temporaries = prepared.temporaries.map(make);
    made.push(...outputs, ...temporaries);
    spent.upload += (performance.now() - uploading) / 1000;
    if (timer) fetched.timed = timer.count;
    commands.call(prepared.dispatches, [...inputs, ...outputs], temporaries, timer);
    for (const [i, output] of outputs.entries()) readback.record(commands, place + i, output);
    commands.submit();
  } catch (cause) {
    commands.drop();
    thrown = toErrorReport(cause);
  }
  const errors = Promise.all([...made.map((buffer) => buffer.error), commands.textures.made(), captured()]);
  return errors.then((found) => {
    const error = thrown ?? found.find((one) => one !== null) ?? null;
    if (!error) return null;
    const types = [...test.inputs, ...test.outputs].map(({ digest: _, ...type }) => type);
    return { ...error, kernel: test.kernel, variant: kernel.variant.name, test: test.id, arguments: types };
  });
}

function compareOutputs(engine: Engine, fetched: Fetched, readback: Readback, place: number): Comparison[] {
  return fetched.job.test.outputs.map((ref, i) => {
    const expected = new Uint8Array(fetched.expected[i] ?? new ArrayBuffer(0));
    const allowed = fetched.allowed[i] ?? { absolute: 0, relative: 0 };
    const got = readback.bytes(place + i);
    const before = fetched.before.get(i);
    const comparison = compare(got, expected, ref, allowed, { before: before && new Uint8Array(before) });
    if (comparison.mismatched) engine.inspect(i, got, expected, allowed);
    return comparison;
  });
}

function verdictOf(
  fetched: Fetched,
  outputs: Comparison[],
  share: { fetch: number; run: number; gpu: number | null },
  compareSeconds: number,
): TestVerdict {
  const { test, compile } = fetched.job;
  const { error } = fetched;
  return {
    kind: "verdict",
    id: test.id,
    kernel: test.kernel,
    variant: fetched.job.kernel.variant.name,
    ...(error ? { verdict: "error", message: error.message } : judge(outputs)),
    outputs,
    error,
    seconds: { fetch: share.fetch, compile, run: share.run, compare: compareSeconds, gpu: share.gpu },
  };
}
