import { useEffect } from "preact/hooks";
import { api } from "../api/client";
import { onDevicesChanged } from "../api/socket";
import type { Devices } from "../api/types";
import { type Resource, useResource } from "./resource";

/** Connected and startable devices, kept up to date: a person opens /runner in another tab and comes back. */
export function useDevices(): Resource<Devices> {
  const devices = useResource("devices", api.devices);
  const { reload } = devices;
  useEffect(() => {
    const stop = onDevicesChanged(reload);
    const visible = () => document.visibilityState === "visible" && reload();
    document.addEventListener("visibilitychange", visible);
    return () => {
      stop();
      document.removeEventListener("visibilitychange", visible);
    };
  }, [reload]);
  return devices;
}
