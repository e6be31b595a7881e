import type { Diagnostic, TestResult } from "../api/generated/results";
import { labelled } from "../model/device-list";
import { ofBound, shareOf, timeText } from "../model/headline";
import type { ResultsState } from "../model/results";
import { resultsOf } from "../model/texts";
import { reasonsOf, triedOn } from "../model/tried";
import { asState, describe, noCounts, worst } from "../model/verdicts";
import { VerdictBadge } from "./Basics";

/** What the text that is shown came to, a line for each device; of another text nothing is told. */
export function TriedVerdicts(props: {
  kernel: string;
  state: ResultsState;
  /** Of the text that is shown; undefined where it never ran. */
  digest: string | undefined;
  /** Why the last run could not begin. */
  problem: string | null;
  /** To the line of the text that is spoken of; a message that tells no line has none. */
  showLine: (file: string, line: number) => void;
  /** To the elements that are wrong, of one of these tests. */
  showElements: (tests: string[]) => void;
}) {
  const { kernel, state, digest, problem } = props;
  const { job } = state;
  const own = job?.kernels?.length === 1 && job.kernels[0] === kernel ? job : null;
  const begins = own?.state === "running" && own.digests[kernel] === undefined;
  const runs = own?.state === "running" && own.digests[kernel] === digest;
  const failed = own !== null && own.digests[kernel] === digest ? own.error : null;
  const devices = triedOn(state, kernel, digest, runs || begins).map(labelled);
  return (
    <div class="tried" role="status" aria-label="What the last run came to">
      {(problem ?? failed) !== null && <p class="message is-error">{problem ?? failed}</p>}
      {devices.map(({ id, name }) => {
        const results =
          digest === undefined || begins ? [] : Object.values(resultsOf(state, id, kernel, digest));
        const wrong = results.filter(({ verdict }) => verdict === "fail" || verdict === "unbounded");
        return (
          <div key={id}>
            <p class="row">
              <strong>{name}</strong>
              {results.length === 0 ? (
                <span class="muted">{runs || begins ? "runs…" : "no result"}</span>
              ) : (
                <Summary results={results} />
              )}
              {wrong.length > 0 && (
                <button
                  type="button"
                  class="link"
                  onClick={() => props.showElements(wrong.map((result) => result.id))}
                >
                  which elements
                </button>
              )}
            </p>
            <Reasons results={results} showLine={props.showLine} />
          </div>
        );
      })}
    </div>
  );
}

function Summary(props: { results: readonly TestResult[] }) {
  const { results } = props;
  const counts = noCounts();
  for (const result of results) counts[asState(result.verdict)] += 1;
  const furthest = [...results].sort((a, b) => far(b) - far(a))[0];
  const slowest = [...results].sort((a, b) => (b.seconds.gpu ?? 0) - (a.seconds.gpu ?? 0))[0];
  const time = slowest === undefined ? null : timeText(slowest);
  return (
    <>
      <VerdictBadge state={worst(counts)} word={describe(counts)} />
      <span>{[furthest && ofBound(furthest), time].filter(Boolean).join(" · ")}</span>
    </>
  );
}

/** Why, each once: the compiler's words lead to their line. */
function Reasons(props: { results: readonly TestResult[]; showLine: (file: string, line: number) => void }) {
  const reasons = reasonsOf(props.results);
  if (reasons.length === 0) return null;
  return (
    <ul class="reasons">
      {reasons.slice(0, MOST_REASONS).map(({ text, at }) => (
        <li key={`${at?.file}:${at?.line}:${text}`}>
          {at && (
            <button type="button" class="link" onClick={() => props.showLine(at.file, at.line)}>
              {placeOf(at)}
            </button>
          )}{" "}
          {text}
        </li>
      ))}
      {reasons.length > MOST_REASONS && (
        <li class="muted">and {reasons.length - MOST_REASONS} more: see the Verdict tab</li>
      )}
    </ul>
  );
}

const MOST_REASONS = 3;

function placeOf({ file, line, column }: Diagnostic): string {
  return `${file}:${line}:${column}`;
}

function far(result: TestResult): number {
  return shareOf(result) ?? -1;
}
