import type { Devices } from "../api/types";

/**
 * What the server calls the device that a result is of: the one that is connected, or another of its sort ("Chromium 156"
 * is what "chromium" starts). Null where there is none.
 */
export function sameDevice(device: { id: string; name: string }, devices: Devices): string | null {
  const { connected, startable } = devices;
  const same =
    connected.find(({ id }) => id === device.id) ?? connected.find(({ name }) => name === device.name);
  if (same !== undefined) return same.id;
  const family = device.name.replace(/ [\d.]+( \(\d+\))?$/, "").toLowerCase();
  return startable.find(({ name, available }) => available && name === family)?.name ?? null;
}
