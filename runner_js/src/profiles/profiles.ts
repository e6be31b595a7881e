/**
 * Device profiles: a real GPU made to look like a worse one, so that what happens there can be tested here
 * (docs/fault-gallery.md). Nothing of this does anything unless a device is started with one.
 */
import type { Platform } from "../platform/platform";
import { type AdapterChange, anonymous, devices, limited, without } from "./adapters";
import { earlyDone, earlyWrite } from "./misbehaving";

/** What a WebGPU implementation must offer at least, of what kernels run into. */
const LEAST = {
  maxBufferSize: 256 << 20,
  maxStorageBufferBindingSize: 128 << 20,
  maxStorageBuffersPerShaderStage: 8,
  maxComputeWorkgroupStorageSize: 16 << 10,
  maxComputeInvocationsPerWorkgroup: 256,
  maxComputeWorkgroupSizeX: 256,
  maxComputeWorkgroupSizeY: 256,
  maxComputeWorkgroupSizeZ: 64,
  maxComputeWorkgroupsPerDimension: 65535,
};

const PROFILES: Readonly<Record<string, AdapterChange>> = {
  "least-limits": limited(LEAST),
  "ten-buffers": limited({ maxStorageBuffersPerShaderStage: 10 }),
  "small-bindings": limited({ maxStorageBufferBindingSize: 4 << 10 }),
  "few-workgroups": limited({ maxComputeWorkgroupsPerDimension: 4 }),
  "no-f16": without("shader-f16"),
  "no-info": anonymous,
  "early-done": devices(earlyDone),
  "early-write": devices(earlyWrite),
};

/** The platform with the profile's name in its own, so that nobody takes its verdicts for the real device's. */
export function withProfile(platform: Platform, profile: string | null): Platform {
  if (profile === null) return platform;
  const name = `${platform.name} (profile ${profile})`;
  const change = PROFILES[profile];
  const { gpu } = platform;
  if (change === undefined) return { ...platform, name, gpu: unknownProfile(profile) };
  return { ...platform, name, gpu: gpu && changed(gpu, change) };
}

/** `gpu` with adapters that were changed; its WGSL is the real one's. */
export function changed(gpu: GPU, change: AdapterChange): GPU {
  const requestAdapter = async (options?: GPURequestAdapterOptions) => {
    const adapter = await gpu.requestAdapter(options);
    if (adapter) change(adapter);
    return adapter;
  };
  return { requestAdapter, wgslLanguageFeatures: gpu.wgslLanguageFeatures } as GPU;
}

function unknownProfile(profile: string): GPU {
  const known = Object.keys(PROFILES).join(", ");
  const requestAdapter = () =>
    Promise.reject(new Error(`there is no device profile ${profile}: give ${known}`));
  return { requestAdapter } as unknown as GPU;
}
