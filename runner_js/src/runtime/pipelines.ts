import type { CompiledKernel, CompiledModel, CompiledVariant } from "../compiled/generated/model";
import { dispatchesOf } from "../compiled/steps";
import { compile, type Executable } from "../hal/executable";
import type { Gpu } from "../hal/gpu";
import { firstFitting } from "../program/requirements";
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
  const { features, limits } = capabilities;
  return kernels.map(({ kernel, variants }) => {
    const { variant, why } = firstFitting(variants, features, limits);
    if (variant) return variant;
    const fix = "use another browser or GPU, or build the model with a variant that asks for less";
    throw new TapmlError("unsupported", `kernel ${kernel}: ${why || "has no variant"}`, fix);
  });
}

/**
 * Compiles each text once, several at a time; `done` after each kernel. What is only a part of dispatches, which their
 * kernels do the work of, is not compiled. Throws a DeviceFailure that names the kernel.
 */
export async function compileKernels(
  model: CompiledModel,
  variants: readonly CompiledVariant[],
  gpu: Gpu,
  done: () => void,
  signal: AbortSignal,
): Promise<ReadyKernel[]> {
  const cache = new Map<string, Promise<Executable>>();
  const compiled = (kernel: string, entry: CompiledVariant["entry_points"][number]) => {
    const key = JSON.stringify([entry.wgsl, entry.name, entry.bindings]);
    let found = cache.get(key);
    if (!found) {
      found = compile(gpu.device, kernel, entry, model.wgsl[entry.wgsl] ?? "");
      cache.set(key, found);
    }
    return found;
  };
  const dispatched = new Set(
    Object.values(model.functions).flatMap(({ code }) => [...dispatchesOf(code)].map(({ kernel }) => kernel)),
  );
  const ready: ReadyKernel[] = [];
  let next = 0;
  const work = async () => {
    while (next < model.kernels.length) {
      const index = next++;
      signal.throwIfAborted();
      const { kernel, symbols } = model.kernels[index] as CompiledKernel;
      const variant = variants[index] as CompiledVariant;
      const entry_points = dispatched.has(index) ? variant.entry_points : [];
      const entries = await Promise.all(entry_points.map((entry) => compiled(kernel, entry)));
      const executables = variant.launches.map(
        (launch) =>
          entries[variant.entry_points.findIndex(({ name }) => name === launch.entry_point)] as Executable,
      );
      ready[index] = { kernel, symbols, variant, executables };
      done();
    }
  };
  await gpu.guard(Promise.all(Array.from({ length: MOST_UNDER_WAY }, work)), signal);
  return ready;
}
