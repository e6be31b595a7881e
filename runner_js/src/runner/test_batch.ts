import { toDeviceError } from "../hal/errors";
import { Readback } from "../hal/readback";
import { captureErrors } from "../hal/scopes";
import type { Comparison, DeviceError, Test, TestVerdict } from "../protocol/messages";
import { encodeLaunches, type KernelState } from "../tvm/kernels";
import { type BufferPointer, dropPending } from "../tvm/tvmjs";
import { compare, describeComparison } from "./compare";
import { bytesOf } from "./dtypes";
import type { Engine } from "./engine";

/** A test that can run. */
export interface Job {
  test: Test;
  state: KernelState;
  /** Seconds of compilation that are booked on this test. */
  compile: number;
  /** Arguments that the kernel may write. */
  written: ReadonlySet<number>;
}

/** A job with its bytes. Inputs that the device holds already are pinned there and null here. */
export interface Fetched {
  job: Job;
  inputs: (ArrayBuffer | null)[];
  expected: ArrayBuffer[];
  pinned: string[];
  error: DeviceError | null;
}

type Report = (test: Test, verdict: TestVerdict) => void;

/** Never rejects: a blob that is missing fails its own tests. */
export function fetchBatch(engine: Engine, jobs: readonly Job[], signal: AbortSignal): Promise<Fetched[]> {
  return Promise.all(
    jobs.map(async (job) => {
      const { test } = job;
      const pinned: string[] = [];
      const inputs = test.inputs.map((ref) => {
        if (engine.pristine.acquire(ref.digest) === undefined) {
          return engine.blobs.load(ref.digest, bytesOf(ref), signal);
        }
        pinned.push(ref.digest);
        return null;
      });
      const outputs = test.outputs.map((ref) => engine.blobs.load(ref.digest, bytesOf(ref), signal));
      const fetched: Fetched = { job, inputs: [], expected: [], pinned, error: null };
      const settled = await Promise.allSettled([Promise.all(inputs), Promise.all(outputs)]);
      const [gotInputs, gotOutputs] = settled;
      if (gotInputs.status === "fulfilled") fetched.inputs = gotInputs.value;
      else fetched.error = toDeviceError(gotInputs.reason);
      if (gotOutputs.status === "fulfilled") fetched.expected = gotOutputs.value;
      else fetched.error ??= toDeviceError(gotOutputs.reason);
      return fetched;
    }),
  );
}

/** Lets go of the inputs that were pinned for a batch; its buffers may be evicted from now on. */
export function releaseBatch(engine: Engine, batch: readonly Fetched[]): void {
  for (const fetched of batch) {
    for (const digest of fetched.pinned.splice(0)) {
      engine.pristine.release(digest);
      if (fetched.error) engine.pristine.discard(digest);
    }
  }
}

interface Running {
  fetched: Fetched;
  /** Place of the first output in the batch's readback. */
  place: number;
  errors: Promise<DeviceError | null>;
}

/** Runs tests that were fetched, each on its own in the queue, and reads all outputs back at once. */
export async function runBatch(
  engine: Engine,
  batch: readonly Fetched[],
  fetchSeconds: number,
  report: Report,
  signal: AbortSignal,
): Promise<{ upload: number; run: number; compare: number }> {
  const { gpu, buffers } = engine;
  const start = performance.now();
  const spent = { upload: 0, run: 0, compare: 0 };
  const temporary: BufferPointer[] = [];
  const running: Running[] = [];
  const ready = batch.filter((fetched) => !fetched.error);
  const captured = captureErrors(gpu.device);
  const readback = new Readback(
    gpu.device,
    ready.flatMap((fetched) => fetched.job.test.outputs.map(bytesOf)),
  );
  const stagingError = captured();
  try {
    let place = 0;
    for (const fetched of ready) {
      const errors = encodeTest(engine, fetched, readback, place, temporary, spent);
      running.push({ fetched, place, errors });
      place += fetched.job.test.outputs.length;
    }
    const mapped = readback.map().then(
      () => null,
      (cause: unknown) => toDeviceError(cause),
    );
    // All waits together: in Firefox each one that is awaited by itself costs 80 ms.
    const waits = Promise.all([stagingError, mapped, ...running.map((test) => test.errors)]);
    const [staging, unmapped, ...errors] = await gpu.guard(waits, signal);
    spent.run = (performance.now() - start) / 1000 - spent.upload;

    const share = { fetch: fetchSeconds / batch.length, run: spent.run / Math.max(1, ready.length) };
    for (const fetched of batch)
      if (fetched.error) report(fetched.job.test, verdictOf(fetched, [], share, 0));
    running.forEach(({ fetched, place }, i) => {
      fetched.error ??= errors[i] ?? staging ?? unmapped ?? null;
      const compared = performance.now();
      const outputs = fetched.error ? [] : compareOutputs(fetched, readback, place);
      const seconds = (performance.now() - compared) / 1000;
      spent.compare += seconds;
      report(fetched.job.test, verdictOf(fetched, outputs, share, seconds));
    });
  } finally {
    readback.destroy();
    for (const pointer of temporary) buffers.free(pointer);
  }
  return spent;
}

/** Encodes and submits one test inside error scopes of its own. */
function encodeTest(
  engine: Engine,
  fetched: Fetched,
  readback: Readback,
  place: number,
  temporary: BufferPointer[],
  spent: { upload: number },
): Promise<DeviceError | null> {
  const { context, buffers, pristine } = engine;
  const { test, state, written } = fetched.job;
  const keep = (pointer: BufferPointer) => {
    temporary.push(pointer);
    return pointer;
  };
  const captured = captureErrors(context.device);
  let thrown: DeviceError | null = null;
  try {
    const uploading = performance.now();
    const inputs = test.inputs.map((ref, i) => {
      const data = fetched.inputs[i] ?? null;
      const shared = data ? pristine.acquireOrUpload(ref.digest, data) : pristine.acquire(ref.digest);
      if (shared === undefined) throw new Error(`input ${ref.digest} left the device`);
      fetched.pinned.push(ref.digest);
      // Other tests read this buffer: a kernel that writes its input works on a copy.
      return written.has(i) ? keep(buffers.copyOf(shared, bytesOf(ref))) : shared;
    });
    const outputs = test.outputs.map((ref) => keep(buffers.allocateFilled(bytesOf(ref))));
    const temporaries = test.temporaries.map((bytes) => keep(buffers.allocate(bytes)));
    spent.upload += (performance.now() - uploading) / 1000;
    encodeLaunches(state, test.launches, [...inputs, ...outputs], temporaries);
    context.flushCommands();
    const encoder = context.device.createCommandEncoder();
    for (const [i, pointer] of outputs.entries()) {
      readback.encodeCopy(encoder, place + i, buffers.gpu(pointer));
    }
    context.device.queue.submit([encoder.finish()]);
  } catch (cause) {
    dropPending(context);
    thrown = toDeviceError(cause);
  }
  return captured().then((error) => {
    const found = thrown ?? error;
    return found && { ...found, kernel: test.kernel };
  });
}

function compareOutputs(fetched: Fetched, readback: Readback, place: number): Comparison[] {
  const { outputs, tolerances } = fetched.job.test;
  return outputs.map((ref, i) => {
    const expected = new Uint8Array(fetched.expected[i] ?? new ArrayBuffer(0));
    const tolerance = tolerances[i] ?? { absolute: 0, relative: 0 };
    return compare(readback.bytes(place + i), expected, ref, tolerance);
  });
}

function verdictOf(
  fetched: Fetched,
  outputs: Comparison[],
  share: { fetch: number; run: number },
  compareSeconds: number,
): TestVerdict {
  const { test, compile } = fetched.job;
  const failed = outputs.findIndex((comparison) => comparison.mismatched > 0);
  const comparison = outputs[failed];
  const which = outputs.length > 1 ? `output ${failed}: ` : "";
  return {
    kind: "verdict",
    id: test.id,
    kernel: test.kernel,
    verdict: fetched.error ? "error" : comparison ? "fail" : "pass",
    outputs,
    message: fetched.error?.message ?? (comparison ? which + describeComparison(comparison) : ""),
    error: fetched.error,
    seconds: { fetch: share.fetch, compile, run: share.run, compare: compareSeconds },
  };
}
