import { useState } from "preact/hooks";
import type { DeviceDocument, Suspect, TestResult } from "../api/generated/results";
import type { TestDetail, TestRef } from "../api/types";
import { deviceLabel } from "../model/device-list";
import { deviceText } from "../model/format";
import { accusation } from "../model/locate";
import { testState } from "../model/matrix";
import { isOther } from "../model/older";
import { isReported } from "../model/reported";
import type { ResultsState } from "../model/results";
import { resultsOf } from "../model/texts";
import { asState, OLDER } from "../model/verdicts";
import { AllElements } from "./AllElements";
import { VerdictBadge } from "./Basics";
import { Evidence, type ShowLine, Tolerances } from "./Evidence";
import { RunAgain } from "./RunAgain";
import { ShareDialog } from "./ShareDialog";
import type { Rerun } from "./shared";
import { TestBadge } from "./TestBadge";

/** Texts of the kernel that somebody edits. */
export interface Unsaved {
  names: string[];
  /** All of its texts. */
  files: Record<string, string>;
  /** Of these; undefined where they never ran. */
  digest: string | undefined;
}

export function VerdictTab(props: {
  suite: string;
  test: TestRef;
  state: ResultsState;
  /** Whether the saved results are there. */
  loaded: boolean;
  device: string | null;
  detail: TestDetail | null;
  showLine: ShowLine;
  rerun: Rerun;
  unsaved: Unsaved | null;
}) {
  const { test, state, device, detail, unsaved } = props;
  const [shared, setShared] = useState<string | null>(null);
  // The chosen device first, the others below it.
  const columns = [...state.devices].sort((a, b) => Number(b.id === device) - Number(a.id === device));
  const results = columns.map((column) => state.verdicts[column.id]?.[test.id]);
  const tolerances =
    results.find((result) => result && result.tolerances.length > 0)?.tolerances ?? detail?.tolerances;
  return (
    <>
      {unsaved !== null && (
        <p class="message">
          <span aria-hidden="true">⚠ </span>
          {unsaved.names.join(", ")} {unsaved.names.length > 1 ? "are" : "is"} edited here and not saved: what
          is not marked so is of what is on disk.
        </p>
      )}
      {unsaved !== null &&
        unsaved.digest !== undefined &&
        columns.map((column) => {
          const result = resultsOf(state, column.id, test.kernel, unsaved.digest ?? "")[test.id];
          return (
            result && (
              <article key={`unsaved ${column.id}`} class="stack card device-verdict">
                <h3>
                  {deviceLabel(column)} <VerdictBadge state={asState(result.verdict)} />
                  <span class="muted">of what is not saved</span>
                </h3>
                <Evidence result={result} showLine={props.showLine} />
                {result.max_abs_error !== null && (
                  <AllElements
                    key={unsaved.digest}
                    suite={props.suite}
                    device={column}
                    result={result}
                    detail={detail}
                    stale={false}
                    files={unsaved.files}
                  />
                )}
              </article>
            )
          );
        })}
      {columns.length === 0 && (
        <p class="hint">{props.loaded ? "Not run on any device yet." : "Loading results…"}</p>
      )}
      {columns.map((column, at) => (
        <DeviceVerdict
          key={column.id}
          device={column}
          badge={<TestBadge state={state} device={column.id} test={test} />}
          stale={testState(state, column.id, test) === "stale"}
          rerun={props.rerun}
          suite={props.suite}
          detail={detail}
          result={results[at]}
          accused={accusation(state.locates[column.id], test.node)}
          accusedOlder={isOther(
            state.locates[column.id]?.kernel_digests[test.kernel],
            state.kernels[test.kernel],
          )}
          digest={state.kernels[test.kernel]?.digest ?? ""}
          share={() => setShared(column.name)}
          showLine={props.showLine}
        />
      ))}
      {shared !== null && (
        <ShareDialog suite={props.suite} test={test} device={shared} close={() => setShared(null)} />
      )}
      <Tolerances tolerances={tolerances ?? []} />
    </>
  );
}

function DeviceVerdict(props: {
  suite: string;
  device: DeviceDocument;
  detail: TestDetail | null;
  badge: preact.ComponentChildren;
  stale: boolean;
  result: TestResult | undefined;
  rerun: Rerun;
  /** By a search for faulty kernels: told where no validation says more. */
  accused: Suspect | undefined;
  /** Of an older text. */
  accusedOlder: boolean;
  /** Of the kernel as it is on disk. */
  digest: string;
  share: () => void;
  showLine: ShowLine;
}) {
  const { device, result, accused } = props;
  const stale = props.stale && result !== undefined;
  return (
    <article class={`stack card device-verdict${stale ? " stale" : ""}`}>
      <h3>
        {deviceLabel(device)} {props.badge} {stale && <RunAgain kernel={result.kernel} rerun={props.rerun} />}
        <span class="muted">{deviceText(device)}</span>
        {result && (
          <button
            type="button"
            class="share-button"
            disabled={stale}
            title={stale ? `This verdict is ${OLDER}: run it again, then share it` : undefined}
            onClick={props.share}
          >
            Share…
          </button>
        )}
      </h3>
      {result !== undefined ? (
        <>
          <Evidence result={result} showLine={props.showLine} />
          {result.max_abs_error !== null && !isReported(device) && (
            <AllElements
              // What was fetched is of the text that ran.
              key={`${result.id} ${props.digest}`}
              suite={props.suite}
              device={device}
              result={result}
              detail={props.detail}
              stale={stale}
            />
          )}
        </>
      ) : accused ? (
        <p class="message">
          Locate:{" "}
          <VerdictBadge
            state={props.accusedOlder ? "stale" : asState(accused.verdict)}
            word={props.accusedOlder ? `${accused.verdict}, ${OLDER}` : undefined}
          />{" "}
          {accused.reason}
        </p>
      ) : (
        <p class="muted">No result yet.</p>
      )}
    </article>
  );
}
