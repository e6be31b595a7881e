import type { Allowed } from "../compare/compare";
import { Buffers } from "../hal/buffers";
import { Commands } from "../hal/commands";
import { Compilations } from "../hal/compilations";
import { Executables } from "../hal/executable";
import { Fence } from "../hal/fence";
import type { Gpu } from "../hal/gpu";
import { Stagings } from "../hal/readback";
import type { Progress } from "../protocol/messages";
import type { Blobs } from "./blobs";
import { type KernelProgress, Kernels, type LoadedKernel } from "./kernels";
import { TensorCache } from "./tensor_cache";
import { Tensors } from "./tensors";

/** One call under way. */
export interface CallContext {
  engine: Engine;
  /** The call's, for its downloads. */
  id: string;
  /** Work of the GPU that takes longer is taken for hung. */
  hangSeconds: number;
  progress: (progress: Progress["progress"]) => void;
  /** Nobody waits for it any more. */
  signal: AbortSignal;
}

/** All that lives as long as one GPU device: pipelines, buffers, tensors, libraries. */
export class Engine {
  readonly buffers: Buffers;
  readonly commands: Commands;
  readonly fence: Fence;
  readonly compilations: Compilations;
  readonly stagings: Stagings;
  readonly kernels: Kernels;
  readonly cache: TensorCache;
  readonly tensors: Tensors;
  /** Kernels by name, by the name of their library. */
  readonly libraries = new Map<string, Map<string, LoadedKernel>>();
  /** Models that calls left for those behind them, by the digests of their documents. */
  readonly kept = new Map<string, { dispose(): void }>();
  /** Settles when what was told last is on its way, in case that this thread does nothing else for long. */
  told: () => Promise<void> = () => Promise.resolve();
  /** Is shown each output of a test that is wrong, while its bytes are here, the expected ones and what it may differ by. */
  inspect: (
    output: number,
    got: Uint8Array<ArrayBuffer>,
    expected: Uint8Array<ArrayBuffer>,
    allowed: Allowed,
  ) => void = () => {};

  constructor(
    readonly gpu: Gpu,
    readonly blobs: Blobs,
    memory?: () => number,
  ) {
    const { device } = gpu;
    this.buffers = new Buffers(device);
    this.commands = new Commands(device);
    this.fence = new Fence(gpu);
    this.stagings = new Stagings(device);
    this.compilations = new Compilations(gpu, memory);
    const executables = new Executables(device, this.compilations, ({ code, file }, signal) =>
      blobs.wgsl(code, file, signal),
    );
    this.kernels = new Kernels(gpu, executables, (...call) => this.beginCompiling(...call));
    // Work of the GPU is nearer to its end than a compilation beside it.
    gpu.running = () => ({ ...this.compilations.culprit, ...this.fence.culprit });
    this.cache = new TensorCache(this.buffers, this.commands);
    this.tensors = new Tensors(this.buffers, this.cache);
  }

  /** For one call: how long a compilation may take, and who is told of it. */
  beginCompiling(hangSeconds: number, progress: KernelProgress): void {
    this.compilations.expect(hangSeconds, (kernel) => {
      progress({ kind: "compiling", kernel });
      return this.told();
    });
  }

  /** Of a server that knows nothing of them. */
  freeAll(): void {
    for (const model of this.kept.values()) model.dispose();
    this.kept.clear();
    this.tensors.freePrefix("");
    this.libraries.clear();
  }
}
