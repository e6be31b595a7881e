import type { CompiledKernel, CompiledModel, CompiledVariant } from "../compiled/generated/model";
import { dispatchesOf } from "../compiled/steps";
import { compile, type Executable } from "../hal/executable";
import type { Gpu } from "../hal/gpu";
import { bestFitting } from "../program/requirements";
import { TapmlError } from "./error";

/** A kernel as this device runs it. */
export interface ReadyKernel {
  readonly kernel: string;
  readonly symbols: CompiledKernel["symbols"];
  readonly variant: CompiledVariant;
  /** Of each launch. */
  readonly executables: readonly Executable[];
}

/** Compilations under way at a time: browsers compile on several threads. */
const MOST_UNDER_WAY = 8;

/** The best variant of each kernel here. Throws a TapmlError of kind "unsupported" that names what is missing. */
export function chooseVariants({ kernels }: CompiledModel, { capabilities }: Gpu): CompiledVariant[] {
  return kernels.map(({ kernel, variants }) => {
    const { variant, why } = bestFitting(variants, capabilities);
    if (variant) return variant;
    const fix = "use another browser or GPU, or build the model with a variant that asks for less";
    throw new TapmlError("unsupported", `kernel ${kernel}: ${why || "has no variant"}`, fix);
  });
}

/** Compiles an entry point of a kernel, each text once. Rejects with a DeviceFailure that names the kernel. */
export type Compile = (kernel: string, entry: CompiledVariant["entry_points"][number]) => Promise<Executable>;

export function compiler(model: CompiledModel, { device }: Gpu): Compile {
  const cache = new Map<string, Promise<Executable>>();
  return (kernel, entry) => {
    const key = JSON.stringify([entry.wgsl, entry.name, entry.bindings]);
    let found = cache.get(key);
    if (!found) {
      found = compile(device, kernel, entry, model.wgsl[entry.wgsl] ?? "");
      cache.set(key, found);
    }
    return found;
  };
}

/** The kernel as this variant runs it. */
export async function readied(
  { kernel, symbols }: CompiledKernel,
  variant: CompiledVariant,
  entry_points: CompiledVariant["entry_points"],
  compiled: Compile,
): Promise<ReadyKernel> {
  const entries = await Promise.all(entry_points.map((entry) => compiled(kernel, entry)));
  const executables = variant.launches.map(
    (launch) =>
      entries[variant.entry_points.findIndex(({ name }) => name === launch.entry_point)] as Executable,
  );
  return { kernel, symbols, variant, executables };
}

/** Kernels that are dispatched, how often in the text of the program. */
export function dispatchedOf({ functions }: CompiledModel): Map<number, number> {
  const found = new Map<number, number>();
  for (const { code } of Object.values(functions)) {
    for (const { kernel } of dispatchesOf(code)) found.set(kernel, (found.get(kernel) ?? 0) + 1);
  }
  return found;
}

/**
 * Compiles several texts at a time; `done` after each kernel. What is only a part of dispatches, which their kernels do
 * the work of, is not compiled. Throws a DeviceFailure that names the kernel.
 */
export async function compileKernels(
  model: CompiledModel,
  variants: readonly CompiledVariant[],
  compiled: Compile,
  gpu: Gpu,
  done: () => void,
  signal: AbortSignal,
): Promise<ReadyKernel[]> {
  const dispatched = dispatchedOf(model);
  const ready: ReadyKernel[] = [];
  let next = 0;
  const work = async () => {
    while (next < model.kernels.length) {
      const index = next++;
      signal.throwIfAborted();
      const variant = variants[index] as CompiledVariant;
      const entry_points = dispatched.has(index) ? variant.entry_points : [];
      ready[index] = await readied(model.kernels[index] as CompiledKernel, variant, entry_points, compiled);
      done();
    }
  };
  await gpu.guard(Promise.all(Array.from({ length: MOST_UNDER_WAY }, work)), signal);
  return ready;
}
