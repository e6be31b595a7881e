/** What a search for faulty kernels found on one device: who is suspected, why, and what that looks like. */

import type { LocateDocument, Suspect } from "../api/generated/results";
import { date, seconds } from "../model/format";
import { notRun, suspects, verdictSentence } from "../model/locate";
import type { JobState, ResultsState } from "../model/results";
import { GLYPH } from "../model/verdicts";
import { VerdictBadge } from "./Basics";
import { ModelCheckCard } from "./ModelCheckCard";
import { NodeButtons } from "./NodeButtons";
import { SuspectCard } from "./SuspectCard";

interface LocatePaneProps {
  state: ResultsState;
  device: string | null;
  choose: (device: string) => void;
  /** The selected node, and its kernel. */
  node: string | null;
  kernel: string | null;
  select: (node: string | null) => void;
}

export function LocatePane(props: LocatePaneProps) {
  const { state, device } = props;
  const running = state.job?.kind === "locate" && state.job.state === "running" ? state.job : null;
  if (running !== null && (device === null || running.devices.includes(device)))
    return <Searching job={running} />;
  const tried = state.devices.filter((column) => state.locates[column.id] !== undefined);
  const document = device === null ? undefined : state.locates[device];
  const name = state.devices.find((column) => column.id === device)?.name ?? device ?? "";
  if (tried.length === 0) {
    return (
      <p class="hint">
        Not searched yet. Locate runs every kernel on its carved inputs, runs those that fail again, and says
        which kernels are faulty and why. Where all pass, it runs the whole model.
      </p>
    );
  }
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
    <section class="scroll locate" tabIndex={0} aria-label="Faulty kernels">
      {tried.length > 1 || document === undefined ? (
        <p class="pane-tools">
          {tried.map((column) => (
            <button
              type="button"
              key={column.id}
              aria-pressed={column.id === device}
              onClick={() => props.choose(column.id)}
            >
              {column.name}
            </button>
          ))}
        </p>
      ) : null}
      {document === undefined ? (
        <p class="hint">Not searched on {name} yet.</p>
      ) : (
        <Found {...props} key={`${device} ${document.created}`} document={document} name={name} />
      )}
    </section>
  );
}

function Searching({ job }: { job: JobState }) {
  return (
    <section class="locate" aria-label="Faulty kernels">
      <p class="hint">
        {job.phase === null
          ? "Every kernel runs on its carved inputs; those that fail run again after that."
          : job.phase.total > 0
            ? "What fails runs again, and what it gives is compared with what was expected."
            : "Every kernel is right by itself: now the whole model runs."}
      </p>
      {job.failing.length > 0 && (
        <>
          <p class="locate-sub">Fail so far:</p>
          <ul class="so-far">
            {job.failing.map((kernel) => (
              <li key={kernel}>{kernel}</li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

function Found(props: LocatePaneProps & { document: LocateDocument; name: string }) {
  const { document, name } = props;
  const { summary } = document;
  const good = summary.verdict === "clean";
  const state = good ? "pass" : summary.verdict === "unknown" ? "unsupported" : "fail";
  const rest = notRun(document);
  return (
    <>
      <div class={`locate-verdict is-${state}`}>
        <p>
          <span aria-hidden="true">{GLYPH[state]} </span>
          {verdictSentence(document, name)}
        </p>
        <p class="muted">
          {date(document.created)} · {seconds(summary.seconds)}
          {document.synthetic && " · carved from made-up inputs"}
        </p>
      </div>
      {suspects(document).map((suspect, at) => (
        <SuspectCard key={suspect.kernel} {...props} suspect={suspect} rank={at + 1} />
      ))}
      {rest.length > 0 && <NotRun suspects={rest} node={props.node} select={props.select} />}
      {document.model !== null && (
        <ModelCheckCard model={document.model} node={props.node} select={props.select} />
      )}
    </>
  );
}

function NotRun(props: {
  suspects: readonly Suspect[];
  node: string | null;
  select: (node: string | null) => void;
}) {
  return (
    <section class="card locate-card">
      <h2>Could not run there</h2>
      <ul class="not-run">
        {props.suspects.map((suspect) => (
          <li key={suspect.kernel}>
            <p>
              <code>{suspect.kernel}</code> <VerdictBadge state="unsupported" />
            </p>
            <p class="muted">{suspect.reason}</p>
            <NodeButtons nodes={suspect.nodes} state="unsupported" node={props.node} select={props.select} />
          </li>
        ))}
      </ul>
    </section>
  );
}
