/** Adapters that offer less than the real one. */
import { override } from "./override";

/** Changes what an adapter says and gives. */
export type AdapterChange = (adapter: GPUAdapter) => void;

/**
 * Limits that the adapter and its devices shall not exceed. WebGPU lets no device have less than its default limits:
 * below those the device only says so, and whoever asks it is told, but the GPU itself would allow more.
 */
export function limited(most: Readonly<Record<string, number>>): AdapterChange {
  return (adapter) => {
    override(adapter, { limits: lowered(adapter.limits, most) });
    devices((device) => override(device, { limits: lowered(device.limits, most) }))(adapter);
  };
}

export function without(feature: GPUFeatureName): AdapterChange {
  return (adapter) => {
    const features = new Set<string>([...adapter.features].filter((offered) => offered !== feature));
    override(adapter, { features });
  };
}

/** Safari 26.0: neither the adapter nor the device tells what it is, not even its subgroups' sizes. */
export function anonymous(adapter: GPUAdapter): void {
  override(adapter, { info: undefined });
  devices((device) => override(device, { adapterInfo: undefined }))(adapter);
}

/** Changes each device that the adapter gives. */
export function devices(change: (device: GPUDevice) => void): AdapterChange {
  return (adapter) => {
    const requestDevice = adapter.requestDevice.bind(adapter);
    override(adapter, {
      async requestDevice(descriptor?: GPUDeviceDescriptor) {
        const device = await requestDevice(descriptor);
        change(device);
        return device;
      },
    });
  };
}

function lowered(limits: GPUSupportedLimits, most: Readonly<Record<string, number>>): Record<string, number> {
  const found: Record<string, number> = {};
  for (const name in limits) {
    const value = Number(limits[name as keyof GPUSupportedLimits]);
    if (Number.isFinite(value)) found[name] = Math.min(value, most[name] ?? value);
  }
  return found;
}
