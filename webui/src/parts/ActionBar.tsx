/** Choose devices, start and cancel jobs. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { DeviceDocument } from "../api/generated/results";
import type { Devices, JobKind } from "../api/types";
import type { DeviceChoice } from "../state/device-choice";
import type { Resource } from "../state/resource";
import type { RunOnSave } from "../state/run-on-save";
import type { LiveResults } from "../state/use-results";
import { Pending } from "./Basics";
import { DeviceDialog } from "./DeviceDialog";

export function ActionBar(props: {
  devices: Resource<Devices>;
  choice: DeviceChoice;
  /** With results, by which their features and limits are known while they are not connected. */
  known: readonly DeviceDocument[];
  results: LiveResults;
  /** Is there a model to offload? */
  model: boolean;
  runOnSave: RunOnSave;
  /** Turn to where a job of this kind will be seen. */
  show: (kind: JobKind) => void;
  /** Stands before the buttons. */
  children?: ComponentChildren;
}) {
  const { devices, results } = props;
  const { choices, selected, toggle } = props.choice;
  const [sending, setSending] = useState(false);
  const [listed, setListed] = useState(false);
  const running = results.state.job?.state === "running";

  const start = async (kind: JobKind) => {
    setSending(true);
    props.show(kind);
    // A trace and a search are about one device: the first one chosen.
    await results.start(kind, kind === "validation" ? selected : selected.slice(0, 1), null);
    setSending(false);
  };
  const first = choices.find((choice) => choice.value === selected[0])?.name ?? "";
  const onFirst = selected.length > 1 ? `On ${first}, the first that is chosen. ` : "";
  const idle = !running && !sending && selected.length > 0;

  if (devices.error) return <Pending what="the devices" of={devices} />;
  return (
    <div class="row actions">
      <fieldset class="row choices">
        <legend class="sr-only">Devices</legend>
        <button
          type="button"
          title="All devices, how to add one, and in what they differ"
          onClick={() => setListed(true)}
        >
          Devices…
        </button>
        {devices.data && choices.length === 0 && (
          <span class="muted">
            none;{" "}
            <a href="/runner" target="_blank" rel="noopener">
              use this browser
            </a>
          </span>
        )}
        {choices.map((choice) => (
          <label key={choice.value} class={`choice${choice.connected ? "" : " spare"}`} title={choice.note}>
            <input
              type="checkbox"
              checked={selected.includes(choice.value)}
              disabled={!choice.usable || running}
              onChange={() => toggle(choice.value)}
            />
            {choice.connected && (
              <span class={`tinted is-${choice.usable ? "pass" : "fail"}`}>
                <span aria-hidden="true">{choice.usable ? "●" : "✗"}</span>
                <span class="sr-only">{choice.usable ? "connected" : "cannot run kernels"} </span>
              </span>
            )}
            <span class="choice-name">{choice.name}</span>
          </label>
        ))}
      </fieldset>
      <div class="buttons">
        {props.children}
        <label
          class="check"
          title="What is edited, on disk or in this page, runs at once on the chosen devices."
        >
          <input
            type="checkbox"
            checked={props.runOnSave.on}
            onChange={(event) => props.runOnSave.set(event.currentTarget.checked)}
          />
          run on save
        </label>
        <button type="button" class="primary" disabled={!idle} onClick={() => start("validation")}>
          Validate
        </button>
        <button
          type="button"
          disabled={!idle || !props.model}
          title={
            props.model
              ? `${onFirst}Move one kernel after the other to the device`
              : "An exported test comes without its model: there is nothing to offload."
          }
          onClick={() => start("offload")}
        >
          Offload
        </button>
        <button
          type="button"
          disabled={!idle}
          title={`${onFirst}Name the faulty kernels, with the reason in words`}
          onClick={() => start("locate")}
        >
          Locate
        </button>
        {running && (
          <button type="button" onClick={results.cancel}>
            Cancel
          </button>
        )}
      </div>
      {listed && devices.data && (
        <DeviceDialog
          devices={devices.data}
          choice={{ selected, toggle, fixed: running }}
          known={props.known}
          close={() => setListed(false)}
        />
      )}
    </div>
  );
}
