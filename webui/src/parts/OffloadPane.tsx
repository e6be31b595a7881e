/** The offload trace of one device: which kernel moved when, and what that did to the model. */

import type { OffloadFinal, OffloadStep } from "../api/generated/results";
import { cosine, count, date, error } from "../model/format";
import { stepState } from "../model/offload";
import type { OffloadRun } from "../model/results";
import { asState } from "../model/verdicts";
import { Glyph, VerdictBadge } from "./Basics";
import { ErrorChart } from "./ErrorChart";
import type { Shared } from "./shared";
import { TriedDevices } from "./TriedDevices";

export function OffloadPane(props: Shared) {
  return (
    <TriedDevices
      {...props}
      name="Offload trace"
      class="offload"
      results={props.state.offloads}
      none={NOT_OFFLOADED}
      missing="Not offloaded to"
      draw={(run, name) => <Trace {...props} run={run} name={name} />}
    />
  );
}

const NOT_OFFLOADED =
  "Not offloaded yet. Offload moves the model to a device kernel by kernel and runs it after each move, " +
  "so that the kernel that breaks it is named.";

function Trace(props: Shared & { run: OffloadRun; name: string }) {
  const { run } = props;
  const selected = props.node?.kernel ?? null;
  const kept = run.steps.filter((step) => step.kept).length;
  const last = run.steps.at(-1);
  return (
    <>
      <p class="offload-summary">
        <strong>
          {kept} of {count(run.total || run.steps.length, "kernel")}
        </strong>{" "}
        on {props.name}
        {last && <span class="muted"> · {count(last.offloaded_nodes, "node")}</span>}
        {run.created && <span class="muted"> · {date(run.created)}</span>}
      </p>
      {run.final && <Final final={run.final} />}
      <ErrorChart
        steps={run.steps}
        total={run.total}
        limit={run.tolerance?.max_abs_error ?? null}
        selected={selected}
      />
      {run.steps.length === 0 && (
        <p class="hint">First every operator is tested, then the kernels move one by one.</p>
      )}
      <table class="trace" hidden={run.steps.length === 0}>
        <thead>
          <tr>
            {["#", "kernel", "operator", "cosine", "max error", "then"].map((head) => (
              <th key={head} scope="col" class={head === "cosine" || head === "max error" ? "num" : ""}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        {run.steps.map((step, at) => (
          <StepRow
            key={step.kernel}
            step={step}
            at={at}
            selected={step.kernel === selected}
            select={props.select}
          />
        ))}
      </table>
      {run.tolerance && (
        <div class="stack tight tolerances">
          <h2>Model tolerance</h2>
          <p>
            cosine at least {cosine(run.tolerance.cosine)}, max error at most{" "}
            {error(run.tolerance.max_abs_error)}
          </p>
          <ul>
            {run.tolerance.reasons.map((reason) => (
              <li key={reason}>{reason}</li>
            ))}
          </ul>
        </div>
      )}
    </>
  );
}

function StepRow(props: {
  step: OffloadStep;
  at: number;
  selected: boolean;
  select: (node: string | null) => void;
}) {
  const { step } = props;
  const state = stepState(step);
  return (
    <tbody class={`${step.kept ? "" : "stayed"}${props.selected ? " selected" : ""}`}>
      <tr>
        <td class="num muted">{props.at + 1}</td>
        <th scope="row">
          <button
            type="button"
            class="row-name clip"
            title={step.kernel}
            onClick={() => props.select(step.nodes[0] ?? null)}
          >
            {step.kernel}
          </button>
          <span class="row-count">×{step.nodes.length}</span>
        </th>
        <td>
          <VerdictBadge state={asState(step.operator_verdict)} />
        </td>
        <td class="num">{cosine(step.model_metric?.cosine)}</td>
        <td class="num">{error(step.model_metric?.max_abs_error)}</td>
        <td>
          <Glyph state={state} /> {step.kept ? "moved" : "stayed"}
        </td>
      </tr>
      {step.message !== "" && (
        <tr class="step-message">
          <td />
          <td colSpan={5}>{step.message}</td>
        </tr>
      )}
    </tbody>
  );
}

function Final(props: { final: OffloadFinal }) {
  const { final } = props;
  return (
    <div class="stack tight card final">
      <h2>
        Whole model <VerdictBadge state={asState(final.verdict)} />
        <span class="muted">{final.mode}</span>
      </h2>
      {final.model_metric && (
        <p>
          cosine {cosine(final.model_metric.cosine)}, max error {error(final.model_metric.max_abs_error)}
        </p>
      )}
      {final.message !== "" && <p class="message">{final.message}</p>}
      {final.kept_on_reference.length > 0 && (
        <p>
          Stayed on the reference: <strong>{final.kept_on_reference.join(", ")}</strong>
        </p>
      )}
    </div>
  );
}
