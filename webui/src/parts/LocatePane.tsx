/** What a search for faulty kernels found on one device: who is suspected, why, and what that looks like. */

import type { LocateDocument, MissingBarrier, Suspect, Suspicious } from "../api/generated/results";
import { date, seconds } from "../model/format";
import { notRun, RACING, SUSPICIOUS, suspects, timesRounding, verdictSentence } from "../model/locate";
import { changedSince, type Kernels, NONE } from "../model/older";
import type { JobState } from "../model/results";
import { GLYPH, OLDER, type State } from "../model/verdicts";
import type { Again } from "../state/again";
import { Doubts, Edited, VerdictBadge, WarningBadge } from "./Basics";
import { ModelCheckCard } from "./ModelCheckCard";
import { NodeButtons } from "./NodeButtons";
import { OlderNote } from "./OlderNote";
import { SuspectCard } from "./SuspectCard";
import type { Shared } from "./shared";
import { TriedDevices } from "./TriedDevices";

interface Selection {
  /** The selected node, and its kernel. */
  node: string | null;
  kernel: string | null;
  select: (node: string | null) => void;
}

export function LocatePane(props: Shared & { again: Again }) {
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
          kernels={state.kernels}
          again={props.again}
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
export function LocateResult(
  props: Selection & {
    document: LocateDocument;
    name: string;
    /** As they are on disk now; a page that was written says what was true then. */
    kernels?: Kernels;
    again?: Again;
  },
) {
  const { document, name, kernels } = props;
  const changed = kernels ? changedSince(document.kernel_digests, kernels) : NONE;
  const isEdited = (found: { kernel: string; edited: boolean }) =>
    kernels?.[found.kernel]?.edited ?? found.edited;
  const { summary } = document;
  const good = summary.verdict === "clean";
  const older = changed.size > 0;
  const state = older ? "stale" : good ? "pass" : (STATES[summary.verdict] ?? "fail");
  const doubted =
    document.suspicious.length > 0 ? SUSPICIOUS : document.missing_barriers.length > 0 ? RACING : null;
  const wary = good && doubted !== null && !older;
  const rest = notRun(document);
  return (
    <>
      <div class={`locate-verdict is-${wary ? "warning" : state}`}>
        <p>
          <span aria-hidden="true">{wary ? doubted : GLYPH[state]} </span>
          {verdictSentence(document, name)}
        </p>
        <OlderNote changed={changed} again={props.again} device={document.devices[0]} />
        <Doubts what={document.suite_name} doubts={document.doubts} />
        <p class="muted">
          {date(document.created)} · {seconds(summary.seconds)}
          {document.synthetic && " · carved from made-up inputs"}
        </p>
      </div>
      {suspects(document).map((suspect, at) => (
        <SuspectCard
          key={suspect.kernel}
          {...props}
          suspect={suspect}
          rank={at + 1}
          older={changed.has(suspect.kernel)}
          edited={isEdited(suspect)}
        />
      ))}
      {document.suspicious.length > 0 && (
        <SuspiciousCard
          found={document.suspicious.map((found) => ({ ...found, edited: isEdited(found) }))}
          node={props.node}
          select={props.select}
          changed={changed}
        />
      )}
      {document.missing_barriers.length > 0 && (
        <MissingBarriers
          found={document.missing_barriers.map((found) => {
            // Only edited kernels are looked at; a text that was undone is none.
            return { ...found, edited: isEdited({ ...found, edited: true }) };
          })}
          node={props.node}
          select={props.select}
          changed={changed}
        />
      )}
      {rest.length > 0 && (
        <NotRun suspects={rest} node={props.node} select={props.select} changed={changed} />
      )}
      {document.positions !== null && (
        <section class="stack card locate-card" aria-label="Later positions">
          <h2>Positions that nobody carved</h2>
          {document.positions.kernels.some((kernel) => changed.has(kernel)) && <VerdictBadge state="stale" />}
          <p class="muted">{document.positions.text}</p>
        </section>
      )}
      {document.model !== null && (
        <ModelCheckCard model={document.model} older={older} node={props.node} select={props.select} />
      )}
    </>
  );
}

function SuspiciousCard(props: {
  found: readonly Suspicious[];
  node: string | null;
  select: (node: string | null) => void;
  changed: ReadonlySet<string>;
}) {
  const { changed } = props;
  return (
    <section class="stack card locate-card" aria-label="Suspicious">
      <h2>Suspicious, though {props.found.length === 1 ? "it passes" : "they pass"}</h2>
      <p class="muted">Errors inside the bound, and far beyond what rounding makes.</p>
      <ul class="stack">
        {props.found.map((found) => (
          <li key={found.kernel} class={changed.has(found.kernel) ? "stale" : ""}>
            <p>
              <code>{found.kernel}</code>{" "}
              {changed.has(found.kernel) ? (
                <VerdictBadge state="stale" word={`${timesRounding(found)}, ${OLDER}`} />
              ) : (
                <WarningBadge word={timesRounding(found)} />
              )}{" "}
              {found.edited && (
                <Edited title="The WGSL, or how it is launched, differs from what was generated." />
              )}
            </p>
            <p class="muted">
              Test {found.test}: {found.text}.
            </p>
            <NodeButtons
              nodes={found.nodes}
              state={changed.has(found.kernel) ? "stale" : "pass"}
              node={props.node}
              select={props.select}
            />
          </li>
        ))}
      </ul>
    </section>
  );
}

function MissingBarriers(props: {
  found: readonly (MissingBarrier & { edited: boolean })[];
  node: string | null;
  select: (node: string | null) => void;
  changed: ReadonlySet<string>;
}) {
  const { changed } = props;
  return (
    <section class="stack card locate-card" aria-label="Missing barriers">
      <h2>A barrier is missing, though {props.found.length === 1 ? "it passes" : "they pass"}</h2>
      <p class="muted">Results depend on which invocation comes first; another device may give others.</p>
      <ul class="stack">
        {props.found.map((found) => (
          <li key={found.file} class={changed.has(found.kernel) ? "stale" : ""}>
            <p>
              <code>{found.kernel}</code>{" "}
              {changed.has(found.kernel) ? (
                <VerdictBadge state="stale" word={`race, ${OLDER}`} />
              ) : (
                <WarningBadge word="race" />
              )}{" "}
              {found.edited && (
                <Edited title="The WGSL, or how it is launched, differs from what was generated." />
              )}
            </p>
            <p class="muted">
              <code>{found.file}</code>: {found.text}.
            </p>
            <NodeButtons
              nodes={found.nodes}
              state={changed.has(found.kernel) ? "stale" : "pass"}
              node={props.node}
              select={props.select}
            />
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
  changed: ReadonlySet<string>;
}) {
  const { changed } = props;
  return (
    <section class="stack card locate-card">
      <h2>Could not run there</h2>
      <ul class="stack">
        {props.suspects.map((suspect) => (
          <li key={suspect.kernel}>
            <p>
              <code>{suspect.kernel}</code>{" "}
              {changed.has(suspect.kernel) ? (
                <VerdictBadge state="stale" word={`unsupported, ${OLDER}`} />
              ) : (
                <VerdictBadge state="unsupported" />
              )}
            </p>
            <p class="muted">{suspect.reason}</p>
            <NodeButtons nodes={suspect.nodes} state="unsupported" node={props.node} select={props.select} />
          </li>
        ))}
      </ul>
    </section>
  );
}
