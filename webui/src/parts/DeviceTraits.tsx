/** Features and limits of devices, side by side; what differs is marked, and comes first. */

import { useState } from "preact/hooks";
import type { DeviceDocument } from "../api/generated/results";
import { traits } from "../model/device-list";
import { ScrollBox } from "./ScrollBox";

export function DeviceTraits(props: { devices: readonly DeviceDocument[] }) {
  const { devices } = props;
  const [all, setAll] = useState(false);
  if (devices.length === 0) {
    return <p class="muted">Features and limits of a device are known once it is connected.</p>;
  }
  const rows = traits(devices);
  const different = rows.filter(({ differs }) => differs).length;
  const shown = all || devices.length === 1 ? rows : rows.slice(0, different);
  return (
    <section class="stack">
      <h3>Features and limits</h3>
      {devices.length > 1 && (
        <p class="row">
          {different === 0 ? "No difference" : `${different} of ${rows.length} differ`}
          <label class="check">
            <input
              type="checkbox"
              checked={all}
              onChange={({ currentTarget }) => setAll(currentTarget.checked)}
            />
            show all
          </label>
        </p>
      )}
      {shown.length > 0 && (
        <ScrollBox class="traits" label="Features and limits">
          <table>
            <thead>
              <tr>
                <th scope="col">name</th>
                {devices.map(({ id, name }) => (
                  <th key={id} scope="col">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {shown.map(({ name, values, differs }) => (
                <tr key={name} class={differs ? "differs" : ""}>
                  <th scope="row">
                    {differs && (
                      <span title="differs">
                        <span aria-hidden="true">≠ </span>
                        <span class="sr-only">differs: </span>
                      </span>
                    )}
                    {name}
                  </th>
                  {values.map((value, at) => (
                    <td key={devices[at]?.id}>{value}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </ScrollBox>
      )}
    </section>
  );
}
