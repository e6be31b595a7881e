/** What a search for faulty kernels found on one device: who is suspected, why, and what that looks like. */

import type { LocateDocument, MissingBarrier, Suspect, Suspicious } from "../api/generated/results";
import { date, seconds } from "../model/format";
import { notRun, RACING, SUSPICIOUS, suspects, timesRounding, verdictSentence } from "../model/locate";
import type { JobState } from "../model/results";
import { GLYPH, type State } from "../model/verdicts";
import { Doubts, Edited, VerdictBadge, WarningBadge } from "./Basics";
import { ModelCheckCard } from "./ModelCheckCard";
import { NodeButtons } from "./NodeButtons";
import { SuspectCard } from "./SuspectCard";
import type { Shared } from "./shared";
import { TriedDevices } from "./TriedDevices";

interface Selection {
  /** The selected node, and its kernel. */
  node: string | null;
  kernel: string | null;
  select: (node: string | null) => void;
}

export function LocatePane(props: Shared) {
  const { state, device } = props;
  const running = state.job?.kind === "locate" && state.job.state === "running" ? state.job : null;
  if (running !== null && (device === null || running.devices.includes(device)))
    return <Searching job={running} />;
  return (
    <TriedDevices
      {...props}
      name="Faulty kernels"
      class="locate"
      results={state.locates}
      none={NOT_SEARCHED}
      missing="Not searched on"
      draw={(document, name) => (
        <LocateResult
          key={`${device} ${document.created}`}
          document={document}
          name={name}
          node={props.node?.id ?? null}
          kernel={props.node?.kernel ?? null}
          select={props.select}
        />
      )}
    />
  );
}

const NOT_SEARCHED =
  "Not searched yet. Locate runs every kernel on its carved inputs, runs those that fail again, and says " +
  "which kernels are faulty and why. Where all pass, it runs the whole model.";

function Searching({ job }: { job: JobState }) {
  return (
    <section class="locate" aria-label="Faulty kernels">
      <p class="hint">
        {job.phase === null
          ? "Every kernel runs on its carved inputs; those that fail run again after that."
          : job.phase.total > 0
            ? "What fails runs again, and what it gives is compared with what was expected; kernels that share memory run twice, for races."
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

const STATES: Partial<Record<LocateDocument["summary"]["verdict"], State>> = {
  unknown: "unsupported",
  unbounded: "unbounded",
};

/** Also the page of `tapml locate --html`. */
export function LocateResult(props: Selection & { document: LocateDocument; name: string }) {
  const { document, name } = props;
  const { summary } = document;
  const good = summary.verdict === "clean";
  const state = good ? "pass" : (STATES[summary.verdict] ?? "fail");
  const doubted =
    document.suspicious.length > 0 ? SUSPICIOUS : document.missing_barriers.length > 0 ? RACING : null;
  const wary = good && doubted !== null;
  const rest = notRun(document);
  return (
    <>
      <div class={`locate-verdict is-${wary ? "warning" : state}`}>
        <p>
          <span aria-hidden="true">{wary ? doubted : GLYPH[state]} </span>
          {verdictSentence(document, name)}
        </p>
        <Doubts what={document.suite_name} doubts={document.doubts} />
        <p class="muted">
          {date(document.created)} · {seconds(summary.seconds)}
          {document.synthetic && " · carved from made-up inputs"}
        </p>
      </div>
      {suspects(document).map((suspect, at) => (
        <SuspectCard key={suspect.kernel} {...props} suspect={suspect} rank={at + 1} />
      ))}
      {document.suspicious.length > 0 && (
        <SuspiciousCard found={document.suspicious} node={props.node} select={props.select} />
      )}
      {document.missing_barriers.length > 0 && (
        <MissingBarriers found={document.missing_barriers} node={props.node} select={props.select} />
      )}
      {rest.length > 0 && <NotRun suspects={rest} node={props.node} select={props.select} />}
      {document.positions !== null && (
        <section class="stack card locate-card" aria-label="Later positions">
          <h2>Positions that nobody carved</h2>
          <p class="muted">{document.positions.text}</p>
        </section>
      )}
      {document.model !== null && (
        <ModelCheckCard model={document.model} node={props.node} select={props.select} />
      )}
    </>
  );
}

function SuspiciousCard(props: {
  found: readonly Suspicious[];
  node: string | null;
  select: (node: string | null) => void;
}) {
  return (
    <section class="stack card locate-card" aria-label="Suspicious">
      <h2>Suspicious, though {props.found.length === 1 ? "it passes" : "they pass"}</h2>
      <p class="muted">Errors inside the bound, and far beyond what rounding makes.</p>
      <ul class="stack">
        {props.found.map((found) => (
          <li key={found.kernel}>
            <p>
              <code>{found.kernel}</code> <WarningBadge word={timesRounding(found)} />{" "}
              {found.edited && <Edited title="The WGSL differs from what was generated." />}
            </p>
            <p class="muted">
              Test {found.test}: {found.text}.
            </p>
            <NodeButtons nodes={found.nodes} state="pass" node={props.node} select={props.select} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function MissingBarriers(props: {
  found: readonly MissingBarrier[];
  node: string | null;
  select: (node: string | null) => void;
}) {
  return (
    <section class="stack card locate-card" aria-label="Missing barriers">
      <h2>A barrier is missing, though {props.found.length === 1 ? "it passes" : "they pass"}</h2>
      <p class="muted">Results depend on which invocation comes first; another device may give others.</p>
      <ul class="stack">
        {props.found.map((found) => (
          <li key={found.file}>
            <p>
              <code>{found.kernel}</code> <WarningBadge word="race" />{" "}
              <Edited title="The WGSL differs from what was generated." />
            </p>
            <p class="muted">
              <code>{found.file}</code>: {found.text}.
            </p>
            <NodeButtons nodes={found.nodes} state="pass" node={props.node} select={props.select} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function NotRun(props: {
  suspects: readonly Suspect[];
  node: string | null;
  select: (node: string | null) => void;
}) {
  return (
    <section class="stack card locate-card">
      <h2>Could not run there</h2>
      <ul class="stack">
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
