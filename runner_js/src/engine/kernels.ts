import { tooMuch } from "../hal/buffers";
import type { Dispatch } from "../hal/commands";
import { DeviceFailure, toErrorReport } from "../hal/errors";
import type { Executable, Executables } from "../hal/executable";
import type { Gpu } from "../hal/gpu";
import { Lru } from "../hal/lru";
import { checkSizes, ExpressionError, type Sizes } from "../program/expressions";
import { evaluateLaunches } from "../program/launches";
import { bestFitting } from "../program/requirements";
import { textureBytes, texturesAt, textureTooLarge } from "../program/textures";
import type { CompileProgress, Compiling, ErrorReport, Kernel, Variant } from "../protocol/messages";
import { checkLaunches } from "./launch";

/** A kernel ready to be called. */
export interface LoadedKernel {
  readonly kernel: string;
  readonly variant: Variant;
  /** What a call with these sizes runs. Throws a DeviceFailure where there can be no such call. */
  readonly at: (sizes: Sizes | undefined) => Prepared;
  /** How many arguments a call has at least. */
  readonly argumentCount: number;
  /** Arguments that some dispatch may write. */
  readonly written: ReadonlySet<number>;
  /** Output -> the input that it begins as, both by their places among the arguments. */
  readonly overwrites: ReadonlyMap<number, number>;
  /** Of compiling it. */
  readonly seconds: number;
}

/** A kernel at the sizes of a call. */
export interface Prepared {
  readonly dispatches: readonly Dispatch[];
  /** Bytes of scratch buffers. */
  readonly temporaries: readonly number[];
}

/** What of a call loading its kernels needs to know. */
export interface LoadingCall {
  hangSeconds: number;
  progress: KernelProgress;
  signal: AbortSignal;
}

export type KernelProgress = (progress: CompileProgress | Compiling) => void;

/** A kernel, or why it cannot run here. */
export type KernelState = LoadedKernel | { kernel: string; seconds: number; error: ErrorReport };

/** The best variant that this device can run; throws a DeviceFailure of kind "unsupported" where none is. */
export function chooseVariant(kernel: Kernel, gpu: Gpu): Variant {
  const { variant, why } = bestFitting(kernel.variants, gpu.capabilities);
  if (variant) return variant;
  throw new DeviceFailure({ kind: "unsupported", message: why, kernel: kernel.kernel });
}

/** Dispatches of kernels that are kept for the next call with the same kernels. */
const KEPT_DISPATCHES = 20_000;

/** Different sizes that a kernel is kept prepared for: they come again where a model runs in a loop. */
const KEPT_SIZES = 64;

/** Chooses, checks and compiles kernels for one device. */
export class Kernels {
  /** By name and variant. Their uniforms and bind groups cost more memory, outside of JavaScript, than it collects for. */
  private readonly kept = new Lru<LoadedKernel>(KEPT_DISPATCHES);

  constructor(
    private readonly gpu: Gpu,
    private readonly executables: Executables,
    private readonly begin: (hangSeconds: number, progress: KernelProgress) => void,
  ) {}

  /**
   * Several at a time. Rejects only with the call; a compilation that takes longer than `hangSeconds` loses the device.
   * `counted`: how many of the call's kernels were loaded before, of how many.
   */
  load(
    kernels: readonly Kernel[],
    call: LoadingCall,
    counted = { before: 0, total: kernels.length },
  ): Promise<Map<string, KernelState>> {
    const { hangSeconds, progress, signal } = call;
    let done = counted.before;
    this.begin(hangSeconds, progress);
    const loading = Promise.all(
      kernels.map(async (kernel) => {
        const state = await this.one(kernel, signal);
        done++;
        const { seconds } = state;
        progress({ kind: "compile", kernel: kernel.kernel, done, total: counted.total, seconds });
        return state;
      }),
    );
    const loaded = loading.then((states) => new Map(states.map((state) => [state.kernel, state])));
    return this.gpu.guard(loaded, signal);
  }

  private async one(kernel: Kernel, signal: AbortSignal): Promise<KernelState> {
    const start = performance.now();
    const seconds = () => (performance.now() - start) / 1000;
    let variant: Variant | null = null;
    try {
      variant = chooseVariant(kernel, this.gpu);
      checkLaunches(kernel.kernel, variant);
      const key = JSON.stringify([kernel.kernel, kernel.symbols, kernel.overwrites ?? [], variant]);
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
      const made = { ...this.loaded(kernel, variant, executables), seconds: seconds() };
      // The call may bring it twice.
      if (!this.kept.has(key)) this.kept.set(key, made, variant.launches.length);
      return made;
    } catch (cause) {
      const error = { ...toErrorReport(cause), kernel: kernel.kernel, variant: variant?.name ?? null };
      return { kernel: kernel.kernel, seconds: seconds(), error };
    }
  }

  private loaded(
    { kernel, symbols, overwrites: pairs = [] }: Kernel,
    variant: Variant,
    executables: Map<string, Executable>,
  ) {
    const written = new Set<number>();
    const overwrites = new Map(pairs.map(({ argument, input }) => [argument, input]));
    let argumentCount = 1 + Math.max(-1, ...overwrites.keys(), ...overwrites.values());
    for (const launch of variant.launches) {
      const { storage } = executables.get(launch.entry_point) as Executable;
      launch.operands.forEach((operand, i) => {
        if (!("argument" in operand)) return;
        argumentCount = Math.max(argumentCount, operand.argument + 1);
        if (storage[i]?.access === "read_write") written.add(operand.argument);
      });
    }
    const prepared = new Lru<Prepared>(KEPT_SIZES);
    const at = (sizes: Sizes = {}) => {
      const key = symbols.map(({ name }) => sizes[name]).join();
      const known = Object.keys(sizes).length === symbols.length && prepared.get(key);
      if (known) return known;
      try {
        checkSizes(symbols, sizes);
        const made = this.prepare(kernel, variant, executables, sizes);
        prepared.set(key, made, 1);
        return made;
      } catch (cause) {
        if (!(cause instanceof ExpressionError)) throw cause;
        const message = `kernel ${kernel}: ${cause.message}`;
        throw new DeviceFailure({ kind: "protocol", message, kernel, variant: variant.name });
      }
    };
    // What is wrong whatever the call is known at once.
    if (!symbols.length) at();
    return { kernel, variant, at, argumentCount, written, overwrites };
  }

  private prepare(
    kernel: string,
    variant: Variant,
    executables: Map<string, Executable>,
    sizes: Sizes,
  ): Prepared {
    const { maxBufferSize, maxComputeWorkgroupsPerDimension: most } = this.gpu.device.limits;
    const { temporaries, launches } = evaluateLaunches(variant, sizes);
    const unsupported = (message: string) =>
      new DeviceFailure({ kind: "unsupported", message, kernel, variant: variant.name });
    const textures = texturesAt(variant, sizes);
    const beyond = textures.map((texture) => textureTooLarge(texture, this.gpu.device.limits)).find(Boolean);
    const scratch = [...temporaries, ...textures.map(textureBytes)];
    const message = beyond ?? tooMuch(scratch, maxBufferSize);
    if (message) throw unsupported(message);
    const dispatches = variant.launches.map((launch, i): Dispatch => {
      const executable = executables.get(launch.entry_point) as Executable;
      const { grid, uniform } = launches[i] as (typeof launches)[number];
      if (grid.some((workgroups) => workgroups > most)) {
        throw unsupported(
          `dispatches [${grid}] workgroups, this device allows maxComputeWorkgroupsPerDimension ${most}`,
        );
      }
      const operands = launch.operands.map((operand) => {
        if ("texture" in operand) return operand;
        return "argument" in operand ? operand.argument : -1 - operand.temporary;
      });
      const made = uniform && this.uniform(uniform);
      return { executable, operands, textures, uniform: made, workgroups: grid, bindGroups: new Map() };
    });
    return { dispatches, temporaries };
  }

  private uniform(data: Uint8Array): GPUBuffer {
    const uniform = this.gpu.device.createBuffer({
      size: data.byteLength,
      usage: GPUBufferUsage.UNIFORM,
      mappedAtCreation: true,
    });
    new Uint8Array(uniform.getMappedRange()).set(data);
    uniform.unmap();
    return uniform;
  }
}
