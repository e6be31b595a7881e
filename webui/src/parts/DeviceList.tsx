import type { Device } from "../api/types";
import { adapter, browser, count } from "../model/format";
import { useDevices } from "../state/use-devices";
import { Pending } from "./Basics";

export function DeviceList() {
  const devices = useDevices();
  const connected = devices.data?.connected ?? [];
  const startable = devices.data?.startable ?? [];
  return (
    <section class="devices" aria-labelledby="devices-title">
      <h2 id="devices-title">Devices</h2>
      {(devices.loading || devices.error) && <Pending what="the devices" of={devices} />}
      {devices.data && (
        <>
          {connected.length === 0 && <p class="muted">No device is connected.</p>}
          <ul class="device-list">
            {connected.map((device) => (
              <ConnectedDevice key={device.id} device={device} />
            ))}
          </ul>
          <p>
            <a href="/runner" target="_blank" rel="noopener">
              Use this browser as a device <span aria-hidden="true">↗</span>
            </a>{" "}
            <span class="muted">opens a tab that runs kernels as long as it stays open</span>
          </p>
          {startable.length > 0 && (
            <ul class="startable">
              {startable.map((device) => (
                <li key={device.name}>
                  <span aria-hidden="true">{device.available ? "✓" : "–"}</span> {device.name}{" "}
                  <span class="muted">
                    {device.available ? "tapml can start it" : device.message || "not available"}
                  </span>
                </li>
              ))}
            </ul>
          )}
        </>
      )}
    </section>
  );
}

function ConnectedDevice(props: { device: Device }) {
  const { device } = props;
  const state = device.unavailable === null ? (device.busy ? "busy" : "ready") : "cannot run kernels";
  return (
    <li class="card">
      <strong>{device.name}</strong> <span class="muted">{browser(device.user_agent)}</span>
      <span class={`device-state tinted is-${device.unavailable === null ? "pass" : "fail"}`}>
        <span aria-hidden="true">{device.unavailable === null ? (device.busy ? "◐" : "●") : "✗"}</span>{" "}
        {state}
      </span>
      <p class="row facts">
        {device.unavailable ?? (
          <>
            <span>{adapter(device.adapter) || "unnamed adapter"}</span>
            <span title={device.features.join(", ")}>{count(device.features.length, "feature")}</span>
          </>
        )}
      </p>
    </li>
  );
}
