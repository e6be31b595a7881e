/** Choose devices, start and cancel jobs. */

import { useState } from "preact/hooks";
import type { Devices, JobKind } from "../api/types";
import type { DeviceChoice } from "../state/device-choice";
import type { Resource } from "../state/resource";
import type { LiveResults } from "../state/use-results";
import { Pending } from "./Basics";

export function ActionBar(props: {
  devices: Resource<Devices>;
  choice: DeviceChoice;
  results: LiveResults;
  /** Is there a model to offload? */
  model: boolean;
  /** Turn to where a job of this kind will be seen. */
  show: (kind: JobKind) => void;
}) {
  const { devices, results } = props;
  const { choices, selected, toggle } = props.choice;
  const [sending, setSending] = useState(false);
  const running = results.state.job?.state === "running";

  const start = async (kind: JobKind) => {
    setSending(true);
    props.show(kind);
    // A trace and a search are about one device: the first one chosen.
    await results.start(kind, kind === "validation" ? selected : selected.slice(0, 1), null);
    setSending(false);
  };
  const first = choices.find((choice) => choice.value === selected[0])?.name ?? "";
  const idle = !running && !sending && selected.length > 0;

  if (devices.error) return <Pending what="the devices" of={devices} />;
  return (
    <div class="row actions">
      <fieldset class="row choices">
        <legend>Devices</legend>
        {devices.data && choices.length === 0 && (
          <span class="muted">
            none;{" "}
            <a href="/runner" target="_blank" rel="noopener">
              use this browser
            </a>
          </span>
        )}
        {choices.map((choice) => (
          <label key={choice.value} class="choice" title={choice.note}>
            <input
              type="checkbox"
              checked={selected.includes(choice.value)}
              disabled={!choice.usable || running}
              onChange={() => toggle(choice.value)}
            />
            <span class="choice-name">{choice.name}</span>
            <span class="muted choice-note clip">{choice.note}</span>
          </label>
        ))}
      </fieldset>
      <div class="buttons">
        <button type="button" class="primary" disabled={!idle} onClick={() => start("validation")}>
          Validate
        </button>
        <button
          type="button"
          disabled={!idle || !props.model}
          title={
            props.model ? undefined : "An exported test comes without its model: there is nothing to offload."
          }
          onClick={() => start("offload")}
        >
          Offload{selected.length > 1 ? ` to ${first}` : ""}
        </button>
        <button
          type="button"
          disabled={!idle}
          title="Name the faulty kernels, with the reason in words"
          onClick={() => start("locate")}
        >
          Locate{selected.length > 1 ? ` on ${first}` : ""}
        </button>
        <button type="button" disabled={!running} onClick={results.cancel}>
          Cancel
        </button>
      </div>
    </div>
  );
}
