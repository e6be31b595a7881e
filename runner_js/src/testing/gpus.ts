/** GPU devices in node that count their buffers, for tests. */
import { create, globals } from "webgpu";
import { acquireGpu, type Gpu } from "../hal/gpu";
import { gpuOf } from "../platform/dawn";
import { limited } from "../profiles/adapters";
import { changed } from "../profiles/profiles";

const dawn = gpuOf({ create, globals });

export interface CountedGpu {
  gpu: Gpu;
  /** Buffers that were made and not destroyed, and their bytes. */
  live: Set<GPUBuffer>;
  bytes: () => number;
}

/** A device of its own. */
export async function countedGpu(
  limits: Record<string, number> = {},
  change: (gpu: GPU) => GPU = (gpu) => gpu,
): Promise<CountedGpu> {
  const about = { userAgent: "node", secure: true, origin: "http://tests" };
  const gpu = await acquireGpu(change(changed(dawn, limited(limits))), about);
  if ("unavailable" in gpu) throw new Error(gpu.unavailable);
  const live = new Set<GPUBuffer>();
  const { device } = gpu;
  const make = device.createBuffer.bind(device);
  device.createBuffer = (descriptor) => {
    const buffer = make(descriptor);
    const destroy = buffer.destroy.bind(buffer);
    buffer.destroy = () => {
      live.delete(buffer);
      destroy();
    };
    live.add(buffer);
    return buffer;
  };
  const bytes = () => [...live].reduce((sum, { size }) => sum + size, 0);
  return { gpu, live, bytes };
}
