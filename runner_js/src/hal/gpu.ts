import type { AdapterInfo, ErrorReport } from "../protocol/messages";
import { DeviceFailure } from "./errors";
import { languageFeatures } from "./language";
import { MATRICES, matrixFeatures } from "./matrices";
import { withoutAdapter, withoutWebGpu } from "./unavailable";
import { within } from "./within";

const WANTED_FEATURES = ["shader-f16", "subgroups", "timestamp-query", MATRICES] as const;

/** What kernels need, should a browser refuse the full list of its own adapter's limits. */
const CORE_LIMITS = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupSizeY",
  "maxComputeWorkgroupSizeZ",
  "maxComputeWorkgroupsPerDimension",
];

/** Browsers whose GPU process is still starting, or starting again, give a null adapter for a while. */
const ADAPTER_TIMEOUT_MS = 5000;
const ADAPTER_RETRY_MS = 250;
/** A GPU process that hangs never answers; one that was killed for it is back within seconds. */
const ANSWER_MS = 30_000;
/** What WebGPU promises of an adapter that does not tell. */
const LEAST_SUBGROUP = 4;
const LARGEST_SUBGROUP = 128;

export interface Capabilities {
  adapter: AdapterInfo;
  /** GPUFeatureName, and what subgroup matrices there are (matrices.ts). */
  features: string[];
  /** GPUSupportedLimits, and GPUAdapterInfo's subgroupMinSize and subgroupMaxSize. */
  limits: Record<string, number>;
}

/** Where a GPU is asked for, for what to say where there is none. */
export interface Environment {
  userAgent: string;
  secure: boolean;
  origin: string;
}

/** How long to wait for the GPU, and whom to blame when it takes longer. */
export interface Watchdog {
  seconds: number;
  /** What runs now: kernel, test. */
  culprit: () => Partial<ErrorReport>;
  /** Milliseconds (performance.now()) of the last sign that work goes on. */
  lastSign?: () => number;
}

/** A GPU device while it lives. */
export class Gpu {
  /** "device lost: ..." from the moment that it is. */
  lost: string | null = null;
  #lostReason: string | null = null;
  #culprit: Partial<ErrorReport> = {};
  /** What runs on it now; to blame when the device is lost by itself. */
  running: () => Partial<ErrorReport> = () => ({});
  /**
   * Whoever waits for something that a loss ends. A promise of the loss instead would keep all that was ever raced with
   * it, results included, for as long as the device lives.
   */
  readonly #waiting = new Set<(cause: DeviceFailure) => void>();

  constructor(
    readonly device: GPUDevice,
    readonly capabilities: Capabilities,
  ) {
    void device.lost.then((info) => {
      const culprit = info.reason === "destroyed" ? {} : this.running();
      this.markLost(info.reason || "unknown", info.message || "the implementation gave no reason", culprit);
    });
  }

  get timestamps(): boolean {
    return this.capabilities.features.includes("timestamp-query");
  }

  /** Lost because work of it did not end; it may be under way still. */
  get hung(): boolean {
    return this.#lostReason === "hung";
  }

  /** Settles when the device is lost. */
  get whenLost(): Promise<void> {
    return new Promise((resolve) => {
      if (this.lost) resolve();
      else this.#waiting.add(() => resolve());
    });
  }

  /** How many wait for something that a loss would end. */
  get waiters(): number {
    return this.#waiting.size;
  }

  /** The device is of no use any more. A hung one is not destroyed: that would block the thread in node. */
  markLost(reason: string, why: string, culprit: Partial<ErrorReport>): void {
    if (this.lost) return;
    this.lost = reason === "hung" ? why : `device lost: ${why} (${reason})`;
    this.#lostReason = reason;
    this.#culprit = culprit;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const lose of waiting) lose(this.#lossFailure());
  }

  /**
   * The same promise, rejected as soon as the device is lost, nobody waits any more, or the watchdog fires: then the
   * device counts as hung.
   */
  async guard<T>(promise: Promise<T>, signal: AbortSignal, watchdog?: Watchdog): Promise<T> {
    // What nobody waits for any more may fail.
    if (signal.aborted) promise.catch(() => {});
    signal.throwIfAborted();
    let stop = () => {};
    let lose: (cause: DeviceFailure) => void = () => {};
    let watch: ReturnType<typeof setInterval> | undefined;
    try {
      return await new Promise<T>((resolve, reject) => {
        promise.then(resolve, reject);
        // What has come already counts, although the device is lost.
        if (this.lost) queueMicrotask(() => reject(this.#lossFailure()));
        stop = () => reject(signal.reason);
        lose = reject;
        signal.addEventListener("abort", stop);
        this.#waiting.add(lose);
        watch = watchdog && this.#watch(watchdog);
      });
    } finally {
      signal.removeEventListener("abort", stop);
      this.#waiting.delete(lose);
      clearInterval(watch);
    }
  }

  throwIfLost(): void {
    if (this.lost) throw this.#lossFailure();
  }

  #watch({ seconds, culprit, lastSign }: Watchdog): ReturnType<typeof setInterval> {
    const start = performance.now();
    return setInterval(
      () => {
        const since = Math.max(start, lastSign?.() ?? 0);
        if (performance.now() - since < 1000 * seconds) return;
        const found = culprit();
        const who = found.kernel ? `kernel ${found.kernel}` : "the GPU's work";
        const where = found.test ? ` in test ${found.test}` : "";
        this.markLost(
          "hung",
          `${who} did not end within ${seconds} s${where}: the GPU device is lost`,
          found,
        );
      },
      Math.min(500, 250 * seconds),
    );
  }

  #lossFailure(): DeviceFailure {
    const message = this.lost ?? "device lost";
    return new DeviceFailure({
      kind: "device-lost",
      message,
      lost_reason: this.#lostReason,
      ...this.#culprit,
    });
  }
}

/** A device with all that the adapter offers, or the sentence that says why there is none. */
export async function acquireGpu(
  gpu: GPU | undefined,
  about: Environment,
): Promise<Gpu | { unavailable: string }> {
  if (!gpu) return { unavailable: withoutWebGpu(about.userAgent, about.secure, about.origin) };
  try {
    const adapter = await patientAdapter(gpu);
    if (!adapter) return { unavailable: withoutAdapter(about.userAgent) };
    const features = WANTED_FEATURES.filter((feature) => adapter.features.has(feature)) as GPUFeatureName[];
    const { device, from } = await requestDevice(gpu, adapter, features);
    return new Gpu(device, {
      adapter: adapterInfo(from),
      features: [
        ...device.features,
        ...matrixFeatures(device.features, from.info, gpu.wgslLanguageFeatures),
        ...languageFeatures(gpu.wgslLanguageFeatures),
      ].sort(),
      limits: { ...limitsOf(device.limits), ...subgroupSizes(from) },
    });
  } catch (cause) {
    return { unavailable: `No WebGPU device was given: ${cause instanceof Error ? cause.message : cause}` };
  }
}

async function patientAdapter(gpu: GPU): Promise<GPUAdapter | null> {
  const deadline = performance.now() + ADAPTER_TIMEOUT_MS;
  for (;;) {
    const adapter = await answered(gpu.requestAdapter({ powerPreference: "high-performance" }));
    if (adapter || performance.now() > deadline) return adapter;
    await new Promise((resolve) => setTimeout(resolve, ADAPTER_RETRY_MS));
  }
}

function answered<T>(question: Promise<T>): Promise<T> {
  return within(question, ANSWER_MS, () => {
    throw new Error("the GPU process does not answer");
  });
}

function subgroupSizes(adapter: GPUAdapter): Record<string, number> {
  const { subgroupMinSize = 0, subgroupMaxSize = 0 } = adapter.info ?? {};
  return {
    subgroupMinSize: subgroupMinSize || LEAST_SUBGROUP,
    subgroupMaxSize: subgroupMaxSize || LARGEST_SUBGROUP,
  };
}

async function requestDevice(
  gpu: GPU,
  adapter: GPUAdapter,
  requiredFeatures: GPUFeatureName[],
): Promise<{ device: GPUDevice; from: GPUAdapter }> {
  const requiredLimits = limitsOf(adapter.limits);
  try {
    const device = await answered(adapter.requestDevice({ requiredFeatures, requiredLimits }));
    return { device, from: adapter };
  } catch {
    // Some browsers list limits that they do not take as requirements. An adapter serves one request.
    const fresh = (await patientAdapter(gpu)) ?? adapter;
    const core = Object.fromEntries(
      Object.entries(requiredLimits).filter(([name]) => CORE_LIMITS.includes(name)),
    );
    const device = await answered(fresh.requestDevice({ requiredFeatures, requiredLimits: core }));
    return { device, from: fresh };
  }
}

/** GPUSupportedLimits as a plain object; its attributes live on the prototype. */
function limitsOf(limits: GPUSupportedLimits): Record<string, number> {
  const found: Record<string, number> = {};
  for (const name in limits) {
    const value: unknown = limits[name as keyof GPUSupportedLimits];
    if (typeof value === "number" && Number.isFinite(value)) found[name] = value;
  }
  return found;
}

function adapterInfo(adapter: GPUAdapter): AdapterInfo {
  const { vendor = "", architecture = "", device = "", description = "" } = adapter.info ?? {};
  return { vendor, architecture, device, description };
}
