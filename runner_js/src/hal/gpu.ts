import type { AdapterInfo } from "../protocol/messages";
import { DeviceFailure } from "./errors";
import { withoutAdapter, withoutWebGpu } from "./unavailable";

const WANTED_FEATURES = ["shader-f16", "subgroups", "timestamp-query"] as const;

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
const ADAPTER_PATIENCE_MS = 5000;
const ADAPTER_RETRY_MS = 250;

export interface Capabilities {
  adapter: AdapterInfo;
  features: string[];
  limits: Record<string, number>;
}

/** A GPU device while it lives. */
export class Gpu {
  /** "device lost: ..." from the moment that it is. */
  lost: string | null = null;
  private readonly loss: Promise<never>;

  constructor(
    readonly device: GPUDevice,
    readonly capabilities: Capabilities,
  ) {
    this.loss = device.lost.then((info) => {
      this.lost = `device lost: ${info.message || "the browser gave no reason"} (${info.reason})`;
      throw this.lossFailure();
    });
    // Nobody may be waiting when it happens.
    this.loss.catch(() => {});
  }

  /** The same promise, rejected as soon as the device is lost or nobody waits any more: a hung GPU never ends. */
  async guard<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
    signal.throwIfAborted();
    let stop = () => {};
    const aborted = new Promise<never>((_, reject) => {
      stop = () => reject(signal.reason);
      signal.addEventListener("abort", stop);
    });
    try {
      return await Promise.race([promise, this.loss, aborted]);
    } finally {
      signal.removeEventListener("abort", stop);
    }
  }

  throwIfLost(): void {
    if (this.lost) throw this.lossFailure();
  }

  private lossFailure(): DeviceFailure {
    return new DeviceFailure({ kind: "device-lost", message: this.lost ?? "device lost" });
  }
}

/** A device with all that the adapter offers, or the sentence that says why there is none. */
export async function acquireGpu(): Promise<Gpu | { unavailable: string }> {
  const gpu = (navigator as Partial<NavigatorGPU>).gpu;
  if (!gpu) return { unavailable: withoutWebGpu(navigator.userAgent, isSecureContext, location.origin) };
  try {
    const adapter = await patientAdapter(gpu);
    if (!adapter) return { unavailable: withoutAdapter(navigator.userAgent) };
    const features = WANTED_FEATURES.filter((feature) => adapter.features.has(feature));
    const { device, from } = await requestDevice(gpu, adapter, features);
    return new Gpu(device, {
      adapter: adapterInfo(from),
      features: [...device.features].sort(),
      limits: limitsOf(device.limits),
    });
  } catch (cause) {
    return {
      unavailable: `The browser refused a WebGPU device: ${cause instanceof Error ? cause.message : cause}`,
    };
  }
}

async function patientAdapter(gpu: GPU): Promise<GPUAdapter | null> {
  const deadline = performance.now() + ADAPTER_PATIENCE_MS;
  for (;;) {
    const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
    if (adapter || performance.now() > deadline) return adapter;
    await new Promise((resolve) => setTimeout(resolve, ADAPTER_RETRY_MS));
  }
}

async function requestDevice(
  gpu: GPU,
  adapter: GPUAdapter,
  requiredFeatures: GPUFeatureName[],
): Promise<{ device: GPUDevice; from: GPUAdapter }> {
  const requiredLimits = limitsOf(adapter.limits);
  try {
    return { device: await adapter.requestDevice({ requiredFeatures, requiredLimits }), from: adapter };
  } catch {
    // Some browsers list limits that they do not take as requirements. An adapter serves one request.
    const fresh = (await patientAdapter(gpu)) ?? adapter;
    const core = Object.fromEntries(
      Object.entries(requiredLimits).filter(([name]) => CORE_LIMITS.includes(name)),
    );
    const device = await fresh.requestDevice({ requiredFeatures, requiredLimits: core });
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
