import type { CompiledModel, CompiledVariant } from "../compiled/generated/model";
import type { Gpu } from "../hal/gpu";
import type { LoadOptions } from "./api";
import { TapmlError } from "./error";
import { compileKernels, compiler, type ReadyKernel } from "./pipelines";

/** Throws a TapmlError of kind "input" for what `choose` of load cannot be. */
export function checkChoose(choose: LoadOptions["choose"]): void {
  if (choose === undefined || choose === "table" || choose === "time") return;
  throw new TapmlError("input", `choose is ${choose}`, "give table or time");
}

/** All kernels as this device runs them; `done` after each. Rejects with a DeviceFailure that names the kernel. */
export async function readyKernels(
  model: CompiledModel,
  byTable: readonly CompiledVariant[],
  gpu: Gpu,
  { choose, cache = true }: LoadOptions,
  done: () => void,
  signal: AbortSignal,
): Promise<ReadyKernel[]> {
  const compiled = compiler(model, gpu);
  let chosen = byTable;
  if (choose === "time") {
    const { byTime } = await gpu.guard(import("./by_time").catch(absent), signal);
    chosen = await byTime(model, byTable, compiled, gpu, cache, signal);
  }
  return compileKernels(model, chosen, compiled, gpu, done, signal);
}

function absent(cause: unknown): never {
  const fix = "put it beside tapml-runtime.js";
  throw new TapmlError("download", "choose: time takes tapml-timing.js, which does not load", fix, { cause });
}
