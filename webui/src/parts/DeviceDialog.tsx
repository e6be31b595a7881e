/** The list of devices over a suite's page, with those chosen for the next job. */

import { useEffect, useRef } from "preact/hooks";
import type { DeviceDocument } from "../api/generated/results";
import type { Devices } from "../api/types";
import { DeviceList } from "./DeviceList";

export function DeviceDialog(props: {
  devices: Devices;
  choice: NonNullable<Parameters<typeof DeviceList>[0]["choice"]>;
  known: readonly DeviceDocument[];
  close: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      class="share devices-dialog"
      aria-labelledby="devices-title"
      onClose={props.close}
      // The pane behind listens for Escape too.
      onKeyDown={(event) => event.key === "Escape" && event.stopPropagation()}
      onClick={(event) => event.target === dialog.current && dialog.current?.close()}
    >
      <div class="share-body stack devices">
        <header class="detail-title">
          <h2 id="devices-title">Devices</h2>
          <button type="button" class="close" aria-label="Close" onClick={() => dialog.current?.close()}>
            ✕
          </button>
        </header>
        <DeviceList devices={props.devices} choice={props.choice} known={props.known} />
      </div>
    </dialog>
  );
}
