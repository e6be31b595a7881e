import { acquireGpu, type Capabilities, Gpu } from "../hal/gpu";
import { languageFeatures } from "../hal/language";
import { matrixFeatures } from "../hal/matrices";
import type { LoadOptions } from "./api";
import { TapmlError } from "./error";
import { Budget } from "./memory";

/** A device, and what all models on it share. */
export interface Place {
  readonly gpu: Gpu;
  readonly budget: Budget;
}

const places = new WeakMap<GPUDevice, Place>();
let ownDevice: Promise<Place> | null = null;

/** That of a device of the page's own, or of the one that all models share which are given none. */
export async function placeOf(given: LoadOptions["device"]): Promise<Place> {
  if (given) return known(given instanceof Gpu ? given : null, "device" in given ? given.device : given);
  const asked = ownDevice;
  const own = asked && (await asked.catch(() => null));
  if (own && !own.gpu.lost) return own;
  // Of several models that come back after a loss, the first asks.
  if (!ownDevice || ownDevice === asked) ownDevice = acquired();
  return ownDevice;
}

async function acquired(): Promise<Place> {
  const page = typeof location === "undefined" ? null : location;
  const gpu = await acquireGpu(globalThis.navigator?.gpu, {
    userAgent: globalThis.navigator?.userAgent ?? "",
    secure: globalThis.isSecureContext ?? true,
    origin: page?.origin ?? "",
  });
  if (!("unavailable" in gpu)) return known(gpu, gpu.device);
  const at = gpu.unavailable.indexOf(": ");
  const [sentence, fix] =
    at < 0
      ? [gpu.unavailable.replace(/\.$/, ""), "use another browser or GPU"]
      : [gpu.unavailable.slice(0, at), gpu.unavailable.slice(at + 2).replace(/\.$/, "")];
  throw new TapmlError("no-webgpu", sentence, fix);
}

function known(gpu: Gpu | null, device: GPUDevice): Place {
  const found = places.get(device);
  if (found) return found;
  const place = { gpu: gpu ?? new Gpu(device, capabilitiesOf(device)), budget: new Budget() };
  places.set(device, place);
  return place;
}

function capabilitiesOf({ features, limits, adapterInfo }: GPUDevice): Capabilities {
  const language = globalThis.navigator?.gpu?.wgslLanguageFeatures;
  const { vendor = "", architecture = "", device = "", description = "" } = adapterInfo ?? {};
  const all: Record<string, number> = {
    // What WebGPU promises where nothing is told.
    subgroupMinSize: adapterInfo?.subgroupMinSize || 4,
    subgroupMaxSize: adapterInfo?.subgroupMaxSize || 128,
  };
  for (const name in limits) all[name] = Number(limits[name as keyof GPUSupportedLimits]);
  return {
    adapter: { vendor, architecture, device, description },
    features: [
      ...features,
      ...matrixFeatures(features, adapterInfo, language),
      ...languageFeatures(language),
    ].sort(),
    limits: all,
  };
}
