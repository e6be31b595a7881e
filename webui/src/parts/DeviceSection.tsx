import { useDevices } from "../state/use-devices";
import { Pending } from "./Basics";
import { DeviceList } from "./DeviceList";

/** The devices of a server, on the page of its suites. */
export function DeviceSection() {
  const devices = useDevices();
  return (
    <section class="devices" aria-labelledby="devices-title">
      <h2 id="devices-title">Devices</h2>
      {devices.data === null ? (
        <Pending what="the devices" of={devices} />
      ) : (
        <DeviceList devices={devices.data} />
      )}
    </section>
  );
}
