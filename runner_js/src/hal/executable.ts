import type { EntryPoint, EntryPointInfo, Launch } from "../protocol/messages";
import type { Compilations } from "./compilations";
import { compileError, diagnose } from "./diagnostics";
import { DeviceFailure, toErrorReport } from "./errors";
import { Lru } from "./lru";
import { captureErrors } from "./scopes";

const WRITE_ACCESS = "paramWriteAccess:";

/** A compiled entry point. */
export interface Executable {
  readonly pipeline: GPUComputePipeline;
  readonly layout: GPUBindGroupLayout;
  readonly info: EntryPointInfo;
}

/** For each buffer of an entry point, in binding order: whether the kernel may write it. */
export function writeAccess(info: EntryPointInfo): boolean[] {
  const tag = info.launch_param_tags.find((t) => t.startsWith(WRITE_ACCESS));
  const flags: unknown = tag ? JSON.parse(tag.slice(WRITE_ACCESS.length)) : [];
  return Array.isArray(flags) ? flags.map(Boolean) : [];
}

/** The uniform of one launch: its scalars, four bytes each, then the number of workgroups along x. */
export function uniformOf(info: EntryPointInfo, launch: Launch): ArrayBuffer {
  const scalars = launch.arguments.flatMap((argument, i) =>
    "scalar" in argument ? [{ value: argument.scalar, dtype: info.arg_types[i] ?? "" }] : [],
  );
  const view = new DataView(new ArrayBuffer(4 * (scalars.length + 1)));
  scalars.forEach(({ value, dtype }, i) => {
    if (dtype.startsWith("float")) view.setFloat32(4 * i, value, true);
    else if (dtype.startsWith("uint")) view.setUint32(4 * i, value, true);
    else view.setInt32(4 * i, value, true);
  });
  view.setUint32(4 * scalars.length, launch.dispatch[0] ?? 1, true);
  return view.buffer;
}

/**
 * Workgroups to dispatch: TVM's kernels expect an x beyond `most` to be halved, and z doubled, until it fits. Null
 * where it never does.
 */
export function foldDispatch(dispatch: readonly number[], most: number): [number, number, number] | null {
  let [x = 1, y = 1, z = 1] = dispatch;
  while (x > most) {
    x = Math.ceil(x / 2);
    z *= 2;
  }
  return y <= most && z <= most ? [x, y, z] : null;
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
    const key = `${entryPoint.code} ${entryPoint.file} ${JSON.stringify(entryPoint.info)}`;
    const known = this.cache.get(key);
    if (known) return known;
    const compiling = this.fetchText(entryPoint, signal).then((code) =>
      this.compilations.run(kernel, () => this.compile(kernel, entryPoint, code)),
    );
    this.cache.set(key, compiling, 1);
    // What the text is to blame for stays as it is; anything else may go better the next time.
    compiling.catch((cause: unknown) => {
      if (toErrorReport(cause).kind !== "compile") this.cache.discard(key);
    });
    return compiling;
  }

  private async compile(kernel: string, { info, file }: EntryPoint, code: string): Promise<Executable> {
    const { device } = this;
    const captured = captureErrors(device);
    const layout = device.createBindGroupLayout({ entries: layoutEntries(info) });
    const pending = device.createComputePipelineAsync({
      layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
      compute: { module: device.createShaderModule({ code }), entryPoint: info.name },
    });
    const [pipeline, error] = await Promise.all([
      pending.catch((cause: unknown) => new Refusal(cause)),
      captured(),
    ]);
    if (pipeline instanceof Refusal || error) {
      const diagnostics = await diagnose(device, file, code);
      const reason = pipeline instanceof Refusal ? pipeline.reason : (error?.message ?? "");
      throw new DeviceFailure(compileError(kernel, file, diagnostics, reason));
    }
    return { pipeline, layout, info };
  }
}

function layoutEntries(info: EntryPointInfo): GPUBindGroupLayoutEntry[] {
  const visibility = GPUShaderStage.COMPUTE;
  const written = writeAccess(info);
  const buffers = info.arg_types.filter((type) => type === "handle");
  return [
    ...buffers.map((_, binding): GPUBindGroupLayoutEntry => {
      return { binding, visibility, buffer: { type: written[binding] ? "storage" : "read-only-storage" } };
    }),
    { binding: buffers.length, visibility, buffer: { type: "uniform" } },
  ];
}

class Refusal {
  readonly reason: string;

  constructor(cause: unknown) {
    this.reason = cause instanceof Error ? cause.message : String(cause);
  }
}
