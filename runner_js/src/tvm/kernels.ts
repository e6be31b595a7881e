import { toDeviceError } from "../hal/errors";
import type { CompileProgress, DeviceError, EntryPoint, Kernel, Launch } from "../protocol/messages";
import { encodeLaunch, entryPointOf } from "./launch";
import { compilePipeline } from "./pipeline";
import type { BufferPointer, Context, Shader } from "./tvmjs";

/** A kernel ready to run, or why it is not. */
export type KernelState = { kernel: Kernel; seconds: number } & (
  | { shaders: Map<string, Shader>; error?: never }
  | { error: DeviceError; shaders?: never }
);

/** Compiles kernels and keeps their pipelines for as long as the device lives. */
export class Kernels {
  private readonly cache = new Map<string, Promise<Shader>>();

  constructor(
    private readonly context: Context,
    private readonly fetchText: (digest: string, signal: AbortSignal) => Promise<string>,
  ) {}

  /** All at once: browsers compile on several threads, and a pipeline may take a second. Never rejects. */
  async compile(
    kernels: readonly Kernel[],
    signal: AbortSignal,
    progress: (progress: CompileProgress) => void,
  ): Promise<Map<string, KernelState>> {
    let done = 0;
    const states = await Promise.all(
      kernels.map(async (kernel) => {
        const state = await this.compileKernel(kernel, signal);
        done++;
        progress({
          kind: "compile",
          kernel: kernel.kernel,
          done,
          total: kernels.length,
          seconds: state.seconds,
        });
        return state;
      }),
    );
    return new Map(states.map((state) => [state.kernel.kernel, state]));
  }

  private async compileKernel(kernel: Kernel, signal: AbortSignal): Promise<KernelState> {
    const start = performance.now();
    const seconds = () => (performance.now() - start) / 1000;
    const shaders = await Promise.allSettled(kernel.entry_points.map((e) => this.shader(kernel, e, signal)));
    const failed = shaders.find((result) => result.status === "rejected");
    if (failed) {
      return {
        kernel,
        seconds: seconds(),
        error: { ...toDeviceError(failed.reason), kernel: kernel.kernel },
      };
    }
    const named = kernel.entry_points.map((entryPoint, i) => {
      const result = shaders[i] as PromiseFulfilledResult<Shader>;
      return [entryPoint.name, result.value] as const;
    });
    return { kernel, seconds: seconds(), shaders: new Map(named) };
  }

  private shader(kernel: Kernel, entryPoint: EntryPoint, signal: AbortSignal): Promise<Shader> {
    const key = `${entryPoint.code} ${entryPoint.file} ${JSON.stringify(entryPoint.info)}`;
    const known = this.cache.get(key);
    if (known) return known;
    const compiling = this.fetchText(entryPoint.code, signal).then((code) =>
      compilePipeline(this.context, entryPoint.info, code, kernel.kernel, entryPoint.file),
    );
    this.cache.set(key, compiling);
    // What the text is to blame for stays as it is; anything else may go better the next time.
    compiling.catch((cause: unknown) => {
      if (toDeviceError(cause).kind !== "compile") this.cache.delete(key);
    });
    return compiling;
  }
}

/** Encodes all dispatches of one operator call. */
export function encodeLaunches(
  state: KernelState,
  launches: readonly Launch[],
  operands: readonly BufferPointer[],
  temporaries: readonly BufferPointer[],
): void {
  for (const launch of launches) {
    const { info, name } = entryPointOf(state.kernel, launch);
    const shader = state.shaders?.get(name);
    if (!shader) throw new Error(`${name} is not compiled`);
    encodeLaunch(shader, info, launch, operands, temporaries);
  }
}
