/** The offload trace of one device: which kernel moved when, and what that did to the model. */

import type { OffloadFinal, OffloadStep } from "../api/generated/results";
import { cosine, count, date, error } from "../model/format";
import { fate, metricText, notMoved, stepState } from "../model/offload";
import { changedSince, olderSteps } from "../model/older";
import type { OffloadRun } from "../model/results";
import { asState, OLDER, WORD } from "../model/verdicts";
import type { Again } from "../state/again";
import { Glyph, VerdictBadge } from "./Basics";
import { ErrorChart } from "./ErrorChart";
import { OlderNote } from "./OlderNote";
import { Replay } from "./Replay";
import type { Shared } from "./shared";
import { TriedDevices } from "./TriedDevices";

export function OffloadPane(props: Shared & { again: Again }) {
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

function Trace(props: Shared & { run: OffloadRun; name: string; again: Again }) {
  const { run } = props;
  const changed = changedSince(run.digests, props.state.kernels);
  const older = olderSteps(run.steps, changed);
  const selected = props.node?.kernel ?? null;
  const kept = run.steps.filter((step) => step.kept).length;
  const last = run.steps.at(-1);
  return (
    <>
      <p class="offload-summary">
        <strong>
          {kept} of {count(run.total || run.steps.length, "kernel")} moved
        </strong>{" "}
        to {props.name}
        {last && <span class="muted"> · {count(last.offloaded_nodes, "node")}</span>}
        {run.created && <span class="muted"> · {date(run.created)}</span>}
      </p>
      <OlderNote
        changed={changed}
        again={props.again}
        device={props.devices.find((column) => column.id === props.device)}
      />
      {run.final && <Final run={run} final={run.final} older={changed.size > 0} />}
      <Replay steps={run.steps} live={run.final === null && run.steps.length < run.total} />
      <ErrorChart
        steps={run.steps}
        older={older}
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
            older={older[at] ?? false}
            operatorOlder={changed.has(step.kernel)}
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
  /** The model's figure is of older texts. */
  older: boolean;
  /** The kernel's verdict is. */
  operatorOlder: boolean;
  at: number;
  selected: boolean;
  select: (node: string | null) => void;
}) {
  const { step, older, operatorOlder } = props;
  const state = older ? "stale" : stepState(step);
  const verdict = asState(step.operator_verdict);
  const metric = metricText(step.model_metric);
  return (
    <tbody class={`${step.kept ? "" : "stayed"}${props.selected ? " selected" : ""}${older ? " older" : ""}`}>
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
          <VerdictBadge
            state={operatorOlder ? "stale" : verdict}
            word={operatorOlder ? `was ${WORD[verdict]}` : undefined}
          />
        </td>
        <td class="num">{metric.cosine}</td>
        <td class="num">{metric.error}</td>
        <td>
          <Glyph state={state} /> {fate(step)}
          {older && <span class="sr-only">, {OLDER}</span>}
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

const MODES: Record<string, string> = {
  "virtual-machine": "in TVM's virtual machine",
  compiled: "as tapml build makes it",
};

function Final(props: { run: OffloadRun; final: OffloadFinal; older: boolean }) {
  const { run, final, older } = props;
  const metric = metricText(final.model_metric);
  return (
    <div class={`stack tight card final${older ? " stale" : ""}`}>
      <h2>
        Whole model{" "}
        <VerdictBadge
          state={older ? "stale" : asState(final.verdict)}
          word={older ? `${final.verdict}, ${OLDER}` : undefined}
        />
        <span class="muted">
          {final.model_metric && "every kernel on the device, "}
          {MODES[final.mode] ?? final.mode}
        </span>
      </h2>
      {final.model_metric && (
        <p>
          cosine {metric.cosine}, max error {metric.error}
        </p>
      )}
      {final.message !== "" && <p class="message">{final.message}</p>}
      {final.kept_on_reference.length > 0 && (
        <p>
          {notMoved(run)}: <strong>{final.kept_on_reference.join(", ")}</strong>
        </p>
      )}
    </div>
  );
}
