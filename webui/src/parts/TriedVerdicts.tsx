import type { TestResult } from "../api/generated/results";
import { labelled } from "../model/device-list";
import { ofBound, shareOf, timeText } from "../model/headline";
import type { ResultsState } from "../model/results";
import { resultsOf } from "../model/texts";
import { triedOn } from "../model/tried";
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
        return (
          <p key={id} class="row">
            <strong>{name}</strong>
            {results.length === 0 ? (
              <span class="muted">{runs || begins ? "runs…" : "no result"}</span>
            ) : (
              <Summary results={results} />
            )}
          </p>
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

function far(result: TestResult): number {
  return shareOf(result) ?? -1;
}
