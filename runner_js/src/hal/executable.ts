import { storageBindings } from "../program/launches";
import type { Binding, EntryPoint } from "../protocol/messages";
import type { Compilations } from "./compilations";
import { compileError, diagnose } from "./diagnostics";
import { DeviceFailure, toErrorReport } from "./errors";
import { Lru } from "./lru";
import { captureErrors } from "./scopes";

/** A compiled entry point. */
export interface Executable {
  readonly pipeline: GPUComputePipeline;
  readonly layout: GPUBindGroupLayout;
  /** All bindings but the uniform, by number. */
  readonly storage: readonly Binding[];
  /** The number of the uniform binding. */
  readonly uniform: number | undefined;
}

/** Compiled entry points that are kept: an author edits and a search reduces kernels for hours. */
const KEPT = 2000;

/** Compiles entry points and keeps the last ones. */
export class Executables {
  private readonly cache = new Lru<Promise<Executable>>(KEPT);

  constructor(
    private readonly device: GPUDevice,
    private readonly compilations: Compilations,
    private readonly fetchText: (entryPoint: EntryPoint, signal: AbortSignal) => Promise<string>,
  ) {}

  /** Throws a DeviceFailure of kind "compile" that points into the WGSL, or "fetch". */
  get(kernel: string, entryPoint: EntryPoint, signal: AbortSignal): Promise<Executable> {
    const key = `${entryPoint.code} ${entryPoint.file} ${JSON.stringify([entryPoint.name, entryPoint.bindings])}`;
    const known = this.cache.get(key);
    if (known) return known;
    const compiling = this.fetchText(entryPoint, signal).then((code) =>
      this.compilations.run(kernel, () => compile(this.device, kernel, entryPoint, code)),
    );
    this.cache.set(key, compiling, 1);
    // What the text is to blame for stays as it is; anything else may go better the next time.
    compiling.catch((cause: unknown) => {
      if (toErrorReport(cause).kind !== "compile") this.cache.discard(key);
    });
    return compiling;
  }
}

/** Throws a DeviceFailure of kind "compile" that points into `code`, the WGSL of the entry point's file. */
export async function compile(
  device: GPUDevice,
  kernel: string,
  entryPoint: Omit<EntryPoint, "code">,
  code: string,
): Promise<Executable> {
  const { name, file, bindings } = entryPoint;
  const { pipeline, layout } = await diagnosed(device, kernel, file, code, async () => {
    const layout = device.createBindGroupLayout({ entries: bindings.map(layoutEntry) });
    const pipeline = await device.createComputePipelineAsync({
      layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
      compute: { module: device.createShaderModule({ code }), entryPoint: name },
    });
    return { pipeline, layout };
  });
  const storage = storageBindings(entryPoint);
  const uniform = bindings.find(({ access }) => access === "uniform")?.binding;
  return { pipeline, layout, storage, uniform };
}

/** What is made of `code`, a kernel's WGSL. Throws a DeviceFailure of kind "compile" that points into it. */
export async function diagnosed<T>(
  device: GPUDevice,
  kernel: string,
  file: string,
  code: string,
  make: () => Promise<T>,
): Promise<T> {
  const captured = captureErrors(device);
  const [made, found] = await Promise.allSettled([make(), captured()]);
  const error = found.status === "fulfilled" ? found.value : null;
  if (made.status === "fulfilled" && !error) return made.value;
  const reason = made.status === "fulfilled" ? (error?.message ?? "") : describe(made.reason);
  throw new DeviceFailure(compileError(kernel, file, await diagnose(device, file, code), reason));
}

function describe(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

const BUFFER_TYPES = { read: "read-only-storage", read_write: "storage", uniform: "uniform" } as const;

const SAMPLE_TYPES = { f32: "unfilterable-float", i32: "sint", u32: "uint" } as const;

function layoutEntry({ binding, access, texture }: Binding): GPUBindGroupLayoutEntry {
  const visibility = GPUShaderStage.COMPUTE;
  if (texture?.format) {
    const { format, dimension: viewDimension } = texture;
    return { binding, visibility, storageTexture: { access: "write-only", format, viewDimension } };
  }
  if (texture) {
    const sampleType = SAMPLE_TYPES[texture.numbers];
    return { binding, visibility, texture: { sampleType, viewDimension: texture.dimension } };
  }
  return { binding, visibility, buffer: { type: BUFFER_TYPES[access as keyof typeof BUFFER_TYPES] } };
}
