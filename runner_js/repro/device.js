/** A GPU device that can run the kernel. */
/** @import { Bundle, Device, Outcome, Variant } from "./types" */

import { firstFitting } from "../src/program/requirements.js";

const ADAPTER_SECONDS = 5;
/** A GPU process that hangs never answers. */
export const ANSWER_SECONDS = 30;

/** Why there is no result; `kind` is "unsupported", "compile", "validation", "out-of-memory", "device-lost", ... */
export class Failure extends Error {
  /** @param {string} kind @param {string} message @param {Partial<NonNullable<Outcome["error"]>>} more */
  constructor(kind, message, more = {}) {
    super(message);
    this.report = { kind, ...more };
  }
}

/** A browser whose GPU process is still starting gives null at first: asked again for some seconds. */
export async function findAdapter() {
  const gpu = /** @type {Partial<NavigatorGPU>} */ (navigator).gpu;
  if (!gpu) {
    const why = globalThis.isSecureContext
      ? "it needs Chrome or Edge 113, Firefox 141 or Safari 26, or later (on Linux: chrome://flags/#enable-unsafe-webgpu, " +
        "or dom.webgpu.enabled in about:config)"
      : "this page is not secure: open it by https, or as a file";
    throw new Failure("unsupported", `This browser offers no WebGPU here: ${why}.`);
  }
  for (const start = performance.now(); ; ) {
    const asked = gpu.requestAdapter({ powerPreference: "high-performance" });
    const adapter = await within(asked, ANSWER_SECONDS, "the GPU process does not answer");
    if (adapter) return adapter;
    if (performance.now() - start > 1000 * ADAPTER_SECONDS) {
      throw new Failure(
        "unsupported",
        "This browser found no GPU adapter: see chrome://gpu (and chrome://flags/#enable-unsafe-webgpu), or about:support " +
          "(and gfx.webgpu.ignore-blocklist in about:config).",
      );
    }
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

/**
 * The variant of the kernel that the device runs.
 * @param {Bundle} kernel @param {readonly string[]} features @param {Record<string, number>} limits
 */
export function chooseVariant(kernel, features, limits) {
  const { variant, why } = firstFitting(kernel.variants, features, limits);
  if (variant) return variant;
  throw new Failure("unsupported", why || kernel.unsupported || "the kernel has no variant");
}

/** GPUSupportedLimits as a plain object: its attributes live on the prototype. @param {GPUAdapter} adapter */
export function limitsOf({ limits, info }) {
  /** @type {Record<string, number>} */
  const found = {};
  for (const name in limits) {
    const value = limits[/** @type {keyof GPUSupportedLimits} */ (name)];
    if (typeof value === "number") found[name] = value;
  }
  // What WebGPU promises of an adapter that does not tell.
  const { subgroupMinSize = 4, subgroupMaxSize = 128 } = info;
  return { limits: found, all: { ...found, subgroupMinSize, subgroupMaxSize } };
}

/**
 * All that the adapter allows, for kernels may need more than the default limits.
 * @param {GPUAdapter} adapter @param {Variant} variant
 */
export async function openDevice(adapter, variant) {
  const requiredFeatures = /** @type {GPUFeatureName[]} */ (variant.requires.features);
  const { limits } = limitsOf(adapter);
  try {
    return await adapter.requestDevice({ requiredFeatures, requiredLimits: limits });
  } catch {
    // Some browsers refuse limits that they list. An adapter serves one request, so it takes another one.
    const needed = /^max(BufferSize|StorageBufferBindingSize|StorageBuffersPerShaderStage|Compute)/;
    const requiredLimits = Object.fromEntries(Object.entries(limits).filter(([name]) => needed.test(name)));
    return (await findAdapter()).requestDevice({ requiredFeatures, requiredLimits });
  }
}

/**
 * The same promise, rejected when it takes too long.
 * @template T @param {Promise<T>} promise @param {number} seconds @param {string} message @returns {Promise<T>}
 */
export function within(promise, seconds, message) {
  return new Promise((resolve, reject) => {
    const hung = new Failure("device-lost", message, { lost_reason: "hung" });
    const timer = setTimeout(() => reject(hung), 1000 * seconds);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/**
 * Captures the errors of what is called between this and the returned function; no `await` may stand between the two.
 * @param {GPUDevice} device
 */
export function captureErrors(device) {
  const filters = /** @type {const} */ (["internal", "out-of-memory", "validation"]);
  for (const filter of filters) device.pushErrorScope(filter);
  return async () => {
    const popped = filters
      .toReversed()
      .map(async (filter) => ({ filter, error: await device.popErrorScope() }));
    for (const { filter, error } of await Promise.all(popped)) {
      if (error)
        throw new Failure(filter, `GPU ${filter} error: ${error.message}`, { gpu_message: error.message });
    }
  };
}

/** @param {GPUAdapterInfo} info @param {string[]} features @param {Record<string, number>} limits @returns {Device} */
export function describeDevice(info, features, limits) {
  const { vendor = "", architecture = "", device = "", description = "" } = info;
  const user_agent = navigator.userAgent;
  // Edge and Opera call themselves Chrome too, Chrome calls itself Safari, and Chromium Chrome.
  const { userAgentData } = /** @type {{userAgentData?: {brands?: {brand: string}[]}}} */ (navigator);
  const genuine = userAgentData?.brands?.some((one) => one.brand === "Google Chrome") ?? true;
  const [, brand = "this browser", version = ""] =
    /(Firefox|Edg|OPR)\/(\d+)/.exec(user_agent) ??
    /(Chrome|CriOS|FxiOS)\/(\d+)/.exec(user_agent) ??
    /Version\/()(\d+[.\d]*).*Safari/.exec(user_agent) ??
    [];
  /** @type {Record<string, string>} */
  const names = {
    Chrome: genuine ? "Chrome" : "Chromium",
    Edg: "Edge",
    OPR: "Opera",
    CriOS: "Chrome",
    FxiOS: "Firefox",
    "": "Safari",
  };
  const name = `${names[brand] ?? brand} ${version}`.trim();
  return { name, user_agent, adapter: { vendor, architecture, device, description }, features, limits };
}
