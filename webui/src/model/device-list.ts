/** Devices as people choose among them: one list of what is connected, what can be started and what is gone. */

import type { DeviceDocument } from "../api/generated/results";
import type { Device, Devices } from "../api/types";
import { deviceText, grouped } from "./format";

/** "Chromium 156", and "Chromium 156 (2)" for the second of that name, which the server's ids tell apart. */
export function deviceLabel(device: { id: string; name: string }): string {
  const slug = device.name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "");
  const number = device.id.startsWith(`${slug}-`) ? device.id.slice(slug.length + 1) : "";
  return /^\d+$/.test(number) ? `${device.name} (${number})` : device.name;
}

export function labelled<T extends { id: string; name: string }>(device: T): T {
  return { ...device, name: deviceLabel(device) };
}

export interface DeviceRow {
  /** What a job is started with: the name of what tapml starts, else the id. */
  value: string;
  name: string;
  /** What it is; where it is missing, what it needs. */
  note: string;
  state: "ready" | "busy" | "unfit" | "startable" | "missing" | "gone";
  /** The connected device's own account of itself. */
  facts: Device | null;
}

/** In the order in which they are of use. What the server has started is one row, not two. */
export function deviceRows(devices: Devices): DeviceRow[] {
  const running = new Set(devices.connected.map(({ started }) => started));
  return [
    ...devices.connected.map((device): DeviceRow => {
      const fit = device.unavailable === null;
      return {
        value: device.started ?? device.id,
        name: deviceLabel(device),
        note: device.unavailable ?? deviceText(device),
        state: fit ? (device.busy ? "busy" : "ready") : "unfit",
        facts: device,
      };
    }),
    ...devices.startable
      .filter(({ name }) => !running.has(name))
      .map(({ name, available, message }): DeviceRow => {
        const note = available ? "" : message || "not available";
        return { value: name, name, note, state: available ? "startable" : "missing", facts: null };
      }),
    ...devices.gone.map((device): DeviceRow => {
      return { value: device.id, name: deviceLabel(device), note: device.why, state: "gone", facts: null };
    }),
  ];
}

export interface Trait {
  name: string;
  /** One for each device. */
  values: string[];
  differs: boolean;
}

/** Every feature and limit that one of the devices has, those in which they differ first. */
export function traits(devices: readonly Pick<DeviceDocument, "features" | "limits">[]): Trait[] {
  const names = (of: (device: (typeof devices)[number]) => string[]) =>
    [...new Set(devices.flatMap(of))].sort();
  const row = (name: string, values: string[]): Trait => {
    return { name, values, differs: new Set(values).size > 1 };
  };
  const features = names(({ features }) => features).map((name) =>
    row(
      name,
      devices.map(({ features }) => (features.includes(name) ? "yes" : "no")),
    ),
  );
  const limits = names(({ limits }) => Object.keys(limits)).map((name) =>
    row(
      name,
      devices.map(({ limits }) => (limits[name] === undefined ? "–" : grouped(limits[name]))),
    ),
  );
  const all = [...features, ...limits];
  return [...all.filter(({ differs }) => differs), ...all.filter(({ differs }) => !differs)];
}
