/** All devices in one list, how to add one, and in what those that are chosen differ. */

import type { DeviceDocument } from "../api/generated/results";
import type { Devices } from "../api/types";
import { type DeviceRow, deviceRows } from "../model/device-list";
import { DeviceTraits } from "./DeviceTraits";
import { Pairing } from "./Pairing";

const STATES = {
  ready: { sign: "●", word: "ready", tint: "pass" },
  busy: { sign: "◐", word: "busy", tint: "running" },
  unfit: { sign: "✗", word: "cannot run kernels", tint: "fail" },
  startable: { sign: "▷", word: "tapml starts it", tint: "none" },
  missing: { sign: "–", word: "not on this machine", tint: "none" },
  gone: { sign: "○", word: "gone", tint: "none" },
} as const;

export function DeviceList(props: {
  devices: Devices;
  /** Chosen for the next job, where one is chosen here. */
  choice?: { selected: readonly string[]; toggle: (value: string) => void; fixed: boolean };
  /** Known of devices from their results, also while they are not connected: their label first. */
  known?: readonly DeviceDocument[];
}) {
  const { choice, known = [] } = props;
  const rows = deviceRows(props.devices);
  const chosen = rows.filter(({ value }) => choice === undefined || choice.selected.includes(value));
  const facts = chosen.flatMap((row) => {
    const found = row.facts ?? known.find(({ name }) => family(name) === row.value);
    return found ? [{ ...found, name: row.facts ? row.name : found.name }] : [];
  });
  return (
    <>
      <ul class="device-list">
        {rows.map((row) => (
          <Row key={`${row.state} ${row.value}`} row={row} choice={choice} />
        ))}
      </ul>
      <Pairing />
      <DeviceTraits devices={facts} />
    </>
  );
}

/** "Chromium 156 (2)": chromium. */
function family(name: string): string {
  return name.replace(/ [\d.]+( \(\d+\))?$/, "").toLowerCase();
}

function Row(props: { row: DeviceRow; choice?: Parameters<typeof DeviceList>[0]["choice"] }) {
  const { row, choice } = props;
  const { sign, word, tint } = STATES[row.state];
  const usable = row.state === "ready" || row.state === "busy" || row.state === "startable";
  const name = <strong>{row.name}</strong>;
  return (
    <li class={usable ? "" : "muted"}>
      {choice && usable ? (
        <label class="check">
          <input
            type="checkbox"
            checked={choice.selected.includes(row.value)}
            disabled={choice.fixed}
            onChange={() => choice.toggle(row.value)}
          />
          {name}
        </label>
      ) : (
        name
      )}
      <span class="device-state">
        <span aria-hidden="true" class={`tinted is-${tint}`}>
          {sign}
        </span>{" "}
        {word}
      </span>
      <span class="muted">{row.note}</span>
    </li>
  );
}
