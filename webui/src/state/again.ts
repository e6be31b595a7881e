/** A search or an offload once more, on the device that the one shown was on. */

import type { DeviceDocument } from "../api/generated/results";
import type { Devices } from "../api/types";
import { sameDevice } from "../model/same-device";
import type { LiveResults } from "./use-results";

/** Runs a job again on the device that its result is of. */
export interface Again {
  /** "Locate" */
  name: string;
  possible: (device: DeviceDocument) => boolean;
  start: (device: DeviceDocument) => void;
}

const NAMES = { offload: "Offload", locate: "Locate" } as const;

export function jobAgain(
  kind: keyof typeof NAMES,
  results: Pick<LiveResults, "state" | "start">,
  devices: Devices | null,
): Again {
  const on = (device: DeviceDocument) => (devices === null ? null : sameDevice(device, devices));
  return {
    name: NAMES[kind],
    possible: (device) => results.state.job?.state !== "running" && on(device) !== null,
    start: (device) => {
      const running = on(device);
      if (running !== null) void results.start(kind, [running], null);
    },
  };
}
