/**
 * Timing at load, a module of its own (tapml-timing.js): few pages ask for it, so the others do not load it. What it shares
 * with the runtime it has once more.
 */
import type { CompiledKernel, CompiledModel, CompiledVariant } from "../compiled/generated/model";
import type { Gpu } from "../hal/gpu";
import { deviceClasses } from "../program/device_class";
import { classThatTells, fittingVariants, timeOf } from "../program/requirements";
import { type Compile, dispatchedOf, readied } from "./pipelines";
import { recalled, remember } from "./remembered";
import { fastest } from "./timing";

/** Variants of a kernel that are timed at most. */
const MOST_VARIANTS = 5;
/** After so long a load times nothing more: kernels that are left have their turn at the next one. */
const MOST_MS = 1000;

/** A kernel with several variants of which nothing is known on devices like this one. */
interface Open {
  readonly index: number;
  readonly kernel: CompiledKernel;
  readonly variants: readonly CompiledVariant[];
}

/**
 * The variant of each kernel: `byTable`, but where the tables that it was chosen by are of other devices, the one that
 * was the fastest here, now or at an earlier load. What cannot be timed stays as it is.
 */
export async function byTime(
  model: CompiledModel,
  byTable: readonly CompiledVariant[],
  compiled: Compile,
  gpu: Gpu,
  kept: boolean,
  signal: AbortSignal,
): Promise<CompiledVariant[]> {
  const chosen = [...byTable];
  const open = openKernels(model, byTable, gpu);
  if (!open.length) return chosen;
  const known = kept ? await gpu.guard(recalled(model, gpu), signal) : new Map<string, string>();
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), MOST_MS);
  const enough = AbortSignal.any([late.signal, signal]);
  let news = false;
  try {
    for (const { index, kernel, variants } of open) {
      let best = variants.find(({ name }) => name === known.get(kernel.kernel));
      if (!best && !enough.aborted) {
        const ready = (variant: CompiledVariant) => readied(kernel, variant, variant.entry_points, compiled);
        const found = await fastest(kernel, variants, ready, gpu, enough, signal);
        // What cannot be told in time cannot be told the next time, either.
        best = found ?? (byTable[index] as CompiledVariant);
        known.set(kernel.kernel, best.name);
        news = true;
      }
      if (best) chosen[index] = best;
    }
  } finally {
    clearTimeout(timer);
  }
  // Nobody waits for it.
  if (news && kept) void remember(model, gpu, known);
  return chosen;
}

/**
 * The variants of each are all expected to take some time somewhere: these compute the same, and have each been proven on
 * devices that can run them, unlike those of which a device takes the first. What takes most of a call comes first.
 */
function openKernels(model: CompiledModel, byTable: readonly CompiledVariant[], gpu: Gpu): Open[] {
  const classes = deviceClasses(gpu.capabilities.adapter);
  const [widest = ""] = classes.slice(-1);
  const open: Open[] = [];
  const dispatched = dispatchedOf(model);
  const worth = (one: Open) =>
    (dispatched.get(one.index) ?? 0) * timeOf(byTable[one.index]?.expected, widest);
  for (const index of dispatched.keys()) {
    const kernel = model.kernels[index] as CompiledKernel;
    const { fitting } = fittingVariants(kernel.variants, gpu.capabilities);
    if (fitting.length < 2 || fitting.some(({ expected }) => !expected)) continue;
    // A table of the widest class is of some other device.
    if (classThatTells(fitting, classes.slice(0, -1)) !== undefined) continue;
    const own = byTable[index] as CompiledVariant;
    const expected = (variant: CompiledVariant) =>
      timeOf(variant.expected, widest) || Number.POSITIVE_INFINITY;
    const others = fitting.filter((variant) => variant !== own).sort((a, b) => expected(a) - expected(b));
    open.push({ index, kernel, variants: [own, ...others.slice(0, MOST_VARIANTS - 1)] });
  }
  return open.sort((one, other) => worth(other) - worth(one));
}
