/** Which devices the next job uses. Remembered, because one works with the same ones all day. */

import { useState } from "preact/hooks";
import type { Devices } from "../api/types";
import { deviceRows } from "../model/device-list";

export interface Choice {
  /** What the job is started with: the name of what tapml starts, or has started, else the id. */
  value: string;
  name: string;
  note: string;
  usable: boolean;
  connected: boolean;
}

export interface DeviceChoice {
  choices: Choice[];
  selected: string[];
  toggle(value: string): void;
}

const REMEMBERED = "tapml.devices";

export function useDeviceChoice(devices: Devices | null): DeviceChoice {
  const [picked, setPicked] = useState<string[] | null>(remembered);
  const choices = choicesOf(devices);
  const selected = selection(choices, picked);
  const toggle = (value: string) => {
    const next = selected.includes(value)
      ? selected.filter((other) => other !== value)
      : [...selected, value];
    setPicked(next);
    remember(next);
  };
  return { choices, selected, toggle };
}

export function choicesOf(devices: Devices | null): Choice[] {
  if (devices === null) return [];
  // The others, and what each of them needs, are in the list of devices.
  return deviceRows(devices)
    .filter(({ state }) => state !== "missing" && state !== "gone")
    .map(({ value, name, note, state }) => ({
      value,
      name,
      note: [note, state === "startable" ? "tapml starts it" : "", state === "busy" ? "busy" : ""]
        .filter(Boolean)
        .join(" · "),
      usable: state !== "unfit",
      connected: state !== "startable",
    }));
}

/** What was picked before and is there now; else all connected devices; else the first that can be started. */
export function selection(choices: readonly Choice[], picked: readonly string[] | null): string[] {
  const usable = choices.filter((choice) => choice.usable);
  const there = usable.filter((choice) => picked?.includes(choice.value)).map((choice) => choice.value);
  if (there.length > 0 || (picked !== null && picked.length === 0)) return there;
  const connected = usable.filter((choice) => choice.connected);
  return (connected.length > 0 ? connected : usable.slice(0, 1)).map((choice) => choice.value);
}

function remembered(): string[] | null {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(REMEMBERED) ?? "null");
    return Array.isArray(stored) ? stored.filter((value) => typeof value === "string") : null;
  } catch {
    return null;
  }
}

function remember(picked: string[]): void {
  try {
    localStorage.setItem(REMEMBERED, JSON.stringify(picked));
  } catch {
    // Only a convenience.
  }
}
