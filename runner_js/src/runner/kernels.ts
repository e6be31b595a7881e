import { tooMuch } from "../hal/buffers";
import type { Dispatch } from "../hal/commands";
import { DeviceFailure, toErrorReport } from "../hal/errors";
import { type Executable, type Executables, foldDispatch, uniformOf, writeAccess } from "../hal/executable";
import type { Gpu } from "../hal/gpu";
import { Lru } from "../hal/lru";
import { unmetRequirement } from "../hal/requirements";
import type { CompileProgress, Compiling, ErrorReport, Kernel, Launch, Variant } from "../protocol/messages";
import { checkLaunches } from "./launch";

/** A kernel ready to be called. */
export interface LoadedKernel {
  readonly kernel: string;
  readonly variant: Variant;
  readonly dispatches: readonly Dispatch[];
  /** How many arguments a call has at least. */
  readonly argumentCount: number;
  /** Arguments that some dispatch may write. */
  readonly written: ReadonlySet<number>;
  /** Of compiling it. */
  readonly seconds: number;
}

export type KernelProgress = (progress: CompileProgress | Compiling) => void;

/** A kernel, or why it cannot run here. */
export type KernelState = LoadedKernel | { kernel: string; seconds: number; error: ErrorReport };

/** The best variant that this device can run; throws a DeviceFailure of kind "unsupported" where none is. */
export function chooseVariant(kernel: Kernel, gpu: Gpu): Variant {
  const { features, limits } = gpu.capabilities;
  let least = "";
  for (const variant of kernel.variants) {
    const unmet = unmetRequirement(variant.requires, features, limits);
    if (unmet === null) return variant;
    // The last one asks least.
    least =
      kernel.variants.length > 1 ? `even its least demanding variant, ${variant.name}, ${unmet}` : unmet;
  }
  throw new DeviceFailure({ kind: "unsupported", message: least, kernel: kernel.kernel });
}

/** Dispatches of kernels that are kept for the next call with the same kernels. */
const KEPT_DISPATCHES = 20_000;

/** Chooses, checks and compiles kernels for one device. */
export class Kernels {
  /** By name and variant. Their uniforms and bind groups cost more memory, outside of JavaScript, than it collects for. */
  private readonly kept = new Lru<LoadedKernel>(KEPT_DISPATCHES);

  constructor(
    private readonly gpu: Gpu,
    private readonly executables: Executables,
    private readonly begin: (hangSeconds: number, progress: KernelProgress) => void,
  ) {}

  /** Several at a time. Never rejects; a compilation that takes longer than `hangSeconds` loses the GPU device. */
  async load(
    kernels: readonly Kernel[],
    hangSeconds: number,
    signal: AbortSignal,
    progress: KernelProgress,
  ): Promise<Map<string, KernelState>> {
    let done = 0;
    this.begin(hangSeconds, progress);
    const states = await Promise.all(
      kernels.map(async (kernel) => {
        const state = await this.one(kernel, signal);
        done++;
        const { seconds } = state;
        progress({ kind: "compile", kernel: kernel.kernel, done, total: kernels.length, seconds });
        return state;
      }),
    );
    return new Map(states.map((state) => [state.kernel, state]));
  }

  private async one(kernel: Kernel, signal: AbortSignal): Promise<KernelState> {
    const start = performance.now();
    const seconds = () => (performance.now() - start) / 1000;
    let variant: Variant | null = null;
    try {
      variant = chooseVariant(kernel, this.gpu);
      checkLaunches(kernel.kernel, variant);
      const message = tooMuch(variant.temporaries, this.gpu.device.limits.maxBufferSize);
      if (message) throw new DeviceFailure({ kind: "unsupported", message, kernel: kernel.kernel });
      const key = JSON.stringify([kernel.kernel, variant]);
      const known = this.kept.get(key);
      if (known) return { ...known, seconds: seconds() };
      const compiling = variant.entry_points.map((entry) =>
        this.executables.get(kernel.kernel, entry, signal),
      );
      const settled = await Promise.allSettled(compiling);
      const failed = settled.find((result) => result.status === "rejected");
      if (failed) throw failed.reason;
      const executables = new Map(
        variant.entry_points.map((entry, i) => {
          return [entry.name, (settled[i] as PromiseFulfilledResult<Executable>).value];
        }),
      );
      const made = { ...this.prepare(kernel.kernel, variant, executables), seconds: seconds() };
      // The call may bring it twice.
      if (!this.kept.has(key)) this.kept.set(key, made, Math.max(1, made.dispatches.length));
      return made;
    } catch (cause) {
      const error = { ...toErrorReport(cause), kernel: kernel.kernel, variant: variant?.name ?? null };
      return { kernel: kernel.kernel, seconds: seconds(), error };
    }
  }

  private prepare(kernel: string, variant: Variant, executables: Map<string, Executable>) {
    const used = variant.launches.flatMap((launch) =>
      launch.arguments.flatMap((argument) => ("argument" in argument ? [argument.argument] : [])),
    );
    const argumentCount = used.reduce((most, argument) => Math.max(most, argument + 1), 0);
    const written = new Set<number>();
    const dispatches = variant.launches.map((launch) => {
      const executable = executables.get(launch.entry_point) as Executable;
      const access = writeAccess(executable.info);
      const operands = launch.arguments.filter((argument) => !("scalar" in argument));
      operands.forEach((argument, i) => {
        if ("argument" in argument && access[i]) written.add(argument.argument);
      });
      return this.dispatch(kernel, launch, executable);
    });
    return { kernel, variant, dispatches, argumentCount, written };
  }

  private dispatch(kernel: string, launch: Launch, executable: Executable): Dispatch {
    const { device } = this.gpu;
    const most = device.limits.maxComputeWorkgroupsPerDimension;
    const workgroups = foldDispatch(launch.dispatch, most);
    if (!workgroups) {
      const message = `dispatches [${launch.dispatch}] workgroups, this device allows maxComputeWorkgroupsPerDimension ${most}`;
      throw new DeviceFailure({ kind: "unsupported", message, kernel });
    }
    const data = uniformOf(executable.info, launch);
    const uniform = device.createBuffer({
      size: data.byteLength,
      usage: GPUBufferUsage.UNIFORM,
      mappedAtCreation: true,
    });
    new Uint8Array(uniform.getMappedRange()).set(new Uint8Array(data));
    uniform.unmap();
    const operands = launch.arguments.flatMap((argument) => {
      if ("scalar" in argument) return [];
      return ["argument" in argument ? argument.argument : -1 - argument.temporary];
    });
    return { executable, operands, uniform, workgroups, bindGroups: new Map() };
  }
}
