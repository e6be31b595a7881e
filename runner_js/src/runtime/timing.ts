import type { CompiledKernel, CompiledVariant } from "../compiled/generated/model";
import type { Gpu } from "../hal/gpu";
import { TimestampQueries } from "../hal/queries";
import { captureErrors } from "../hal/scopes";
import { paddedBytes } from "../hal/sizes";
import { bytesOf } from "../program/dtypes";
import type { SizeSymbol, Sizes } from "../program/expressions";
import { evaluateLaunches } from "../program/launches";
import { Flat } from "./flat";
import { Allocations } from "./memory";
import type { ReadyKernel } from "./pipelines";
import { OUTPUT_USAGE } from "./session";
import { typeAt } from "./values";

/** Of the buffers of a kernel that is timed. */
const MOST_BYTES = 1 << 27;
/** Calls are made so often that they take as long: browsers tell times of the GPU in tenths of a millisecond. */
const LEAST_SECONDS = 0.004;
const MOST_CALLS = 64;
/** Times what the fastest takes: such a variant has no second turn. */
const HOPELESS = 2;
/** Another variant is taken where it is faster by so much: what is measured twice differs. */
const FASTER = 0.95;

/** A variant with its dispatches. */
interface Run {
  readonly variant: CompiledVariant;
  readonly flat: Flat;
  calls: number;
  /** Of one call, the least that was told. */
  seconds: number;
}

/**
 * The variant that takes the least time on this device, for sizes as tables are made at: the first of them, unless
 * another is clearly faster. Where `enough` is aborted, of those that were timed until then. Null where none was. Rejects
 * where the device is lost, or `signal` is aborted; `enough` is aborted then, too.
 */
export async function fastest(
  kernel: CompiledKernel,
  variants: readonly CompiledVariant[],
  ready: (variant: CompiledVariant) => Promise<ReadyKernel>,
  gpu: Gpu,
  enough: AbortSignal,
  signal: AbortSignal,
): Promise<CompiledVariant | null> {
  const allocations = new Allocations(gpu.device, kernel.kernel);
  const runs: Run[] = [];
  try {
    const given = await argumentsOf(kernel, allocations);
    for (const variant of variants) {
      const found = await gpu.guard(
        ready(variant).catch(() => null),
        enough,
      );
      if (found) runs.push(await timed(await recorded(found, given, gpu, allocations), gpu, enough));
    }
    await again(runs, gpu, enough);
  } catch {
    signal.throwIfAborted();
    gpu.throwIfLost();
  } finally {
    allocations.close();
  }
  const share = ({ variant, seconds }: Run) => seconds * (variant === variants[0] ? FASTER : 1);
  const ran = runs.filter(({ seconds }) => Number.isFinite(seconds));
  return ran.sort((one, other) => share(one) - share(other))[0]?.variant ?? null;
}

/** What a kernel is given, at some sizes: buffers of zeros. */
interface Given {
  readonly sizes: Sizes;
  readonly buffers: readonly GPUBuffer[];
  readonly bytes: number;
}

/** Throws where there is too little memory for them. */
async function argumentsOf(kernel: CompiledKernel, allocations: Allocations): Promise<Given> {
  const sizes = judgedSizes(kernel.symbols);
  const bytes = kernel.arguments.map((argument) => paddedBytes(bytesOf(typeAt(argument, sizes))));
  const buffers = await madeOf(bytes, 0, allocations);
  return { sizes, buffers, bytes: bytes.reduce((sum, one) => sum + one, 0) };
}

async function madeOf(
  bytes: readonly number[],
  before: number,
  allocations: Allocations,
): Promise<GPUBuffer[]> {
  const most = bytes.reduce((sum, one) => sum + one, before);
  if (most > MOST_BYTES) throw new Error("too large to be timed");
  return allocations.made(() => bytes.map((one) => allocations.make(one, OUTPUT_USAGE)));
}

async function recorded(
  ready: ReadyKernel,
  { sizes, buffers, bytes }: Given,
  { device }: Gpu,
  allocations: Allocations,
): Promise<Run> {
  const { temporaries } = evaluateLaunches(ready.variant, sizes);
  const of = [...buffers, ...(await madeOf(temporaries.map(paddedBytes), bytes, allocations))];
  const regions = of.map(({ size }, index) => ({ of, index, offset: 0, bytes: size }));
  const flat = new Flat(
    { device, allocations },
    { weights: of, arena: [], state: [], input: [], output: [] },
  );
  flat.add(ready, sizes, regions, buffers.length, "");
  flat.seal();
  return { variant: ready.variant, flat, calls: 1, seconds: Number.POSITIVE_INFINITY };
}

/**
 * Of each symbol a quarter of the largest, but no more than 1,024, and at least what is, as a factor, in the middle of its
 * range: what tables are made at.
 */
function judgedSizes(symbols: readonly SizeSymbol[]): Sizes {
  const judged = ({ minimum, maximum }: SizeSymbol) =>
    Math.max(Math.round(Math.sqrt(Math.max(1, minimum) * maximum)), Math.min(Math.floor(maximum / 4), 1024));
  return Object.fromEntries(symbols.map((symbol) => [symbol.name, judged(symbol)]));
}

/** As many calls as a clock can tell the time of. */
async function timed(run: Run, gpu: Gpu, signal: AbortSignal): Promise<Run> {
  for (;;) {
    run.seconds = await secondsOf(run, gpu, signal);
    if (run.seconds * run.calls >= LEAST_SECONDS || run.calls >= MOST_CALLS) return run;
    const enough = Math.ceil(LEAST_SECONDS / Math.max(run.seconds, 1e-9));
    run.calls = Math.min(MOST_CALLS, Math.max(2 * run.calls, enough));
  }
}

/** A second turn of those that may be the fastest: something else may have run beside the first. */
async function again(runs: readonly Run[], gpu: Gpu, signal: AbortSignal): Promise<void> {
  const best = Math.min(...runs.map(({ seconds }) => seconds));
  for (const run of runs) {
    if (run.seconds > HOPELESS * best) continue;
    run.seconds = Math.min(run.seconds, await secondsOf(run, gpu, signal));
  }
}

/** Of one call; infinite where the GPU does not take it. */
async function secondsOf({ flat, calls }: Run, gpu: Gpu, signal: AbortSignal): Promise<number> {
  const { device } = gpu;
  const queries = gpu.timestamps ? new TimestampQueries(device, 1) : null;
  try {
    const captured = captureErrors(device);
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass(queries ? { timestampWrites: queries.next() } : {});
    for (let call = 0; call < calls; call++) encode(pass, flat);
    pass.end();
    queries?.resolve(encoder);
    const begun = performance.now();
    device.queue.submit([encoder.finish()]);
    const checked = captured();
    await gpu.guard(device.queue.onSubmittedWorkDone(), signal);
    const waited = (performance.now() - begun) / 1000;
    if (await gpu.guard(checked, signal)) return Number.POSITIVE_INFINITY;
    const [told = 0] = queries ? await gpu.guard(queries.seconds(), signal) : [];
    return (told || waited) / calls;
  } finally {
    queries?.destroy();
  }
}

function encode(pass: GPUComputePassEncoder, { pipelines, bindGroups, grids }: Flat): void {
  pipelines.forEach((pipeline, i) => {
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, bindGroups[i] as GPUBindGroup);
    pass.dispatchWorkgroups(grids[3 * i] as number, grids[3 * i + 1] as number, grids[3 * i + 2] as number);
  });
}
