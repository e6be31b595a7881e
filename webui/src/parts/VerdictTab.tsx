import { useState } from "preact/hooks";
import type { DeviceDocument, Suspect, TestResult } from "../api/generated/results";
import type { TestDetail, TestRef } from "../api/types";
import { deviceText } from "../model/format";
import { accusation } from "../model/locate";
import { isOutdated, testState } from "../model/matrix";
import type { ResultsState } from "../model/results";
import { asState } from "../model/verdicts";
import { VerdictBadge } from "./Basics";
import { Evidence, type ShowLine, Tolerances } from "./Evidence";
import { OUTDATED } from "./MatrixCell";
import { ShareDialog } from "./ShareDialog";

export function VerdictTab(props: {
  suite: string;
  test: TestRef;
  state: ResultsState;
  device: string | null;
  detail: TestDetail | null;
  showLine: ShowLine;
}) {
  const { test, state, device, detail } = props;
  const [shared, setShared] = useState<string | null>(null);
  // The chosen device first, the others below it.
  const columns = [...state.devices].sort((a, b) => Number(b.id === device) - Number(a.id === device));
  const results = columns.map((column) => state.verdicts[column.id]?.[test.id]);
  const tolerances =
    results.find((result) => result && result.tolerances.length > 0)?.tolerances ?? detail?.tolerances;
  return (
    <>
      {columns.length === 0 && <p class="hint">Not run on any device yet.</p>}
      {columns.map((column, at) => (
        <DeviceVerdict
          key={column.id}
          device={column}
          badge={<VerdictBadge state={testState(state, column.id, test)} />}
          result={results[at]}
          outdated={isOutdated(state, column.id, test.kernel)}
          accused={accusation(state.locates[column.id], test.node)}
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
  device: DeviceDocument;
  badge: preact.ComponentChildren;
  result: TestResult | undefined;
  /** Whether the result is of an earlier text of the kernel. */
  outdated: boolean;
  /** By a search for faulty kernels: told where no validation says more. */
  accused: Suspect | undefined;
  share: () => void;
  showLine: ShowLine;
}) {
  const { device, result, accused } = props;
  return (
    <article class="stack card device-verdict">
      <h3>
        {device.name} {props.badge}
        <span class="muted">{deviceText(device)}</span>
        {result && (
          <button type="button" class="share-button" onClick={props.share}>
            Share…
          </button>
        )}
      </h3>
      {result !== undefined && props.outdated && <p class="muted">✎ This is {OUTDATED}.</p>}
      {result !== undefined ? (
        <Evidence result={result} showLine={props.showLine} />
      ) : accused ? (
        <p class="message">
          Locate: <VerdictBadge state={asState(accused.verdict)} /> {accused.reason}
        </p>
      ) : (
        <p class="muted">No result yet.</p>
      )}
    </article>
  );
}
