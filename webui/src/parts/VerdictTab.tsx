import { useState } from "preact/hooks";
import type {
  DeviceDocument,
  Diagnostic,
  ErrorEvidence,
  Suspect,
  TestResult,
  ToleranceDocument,
} from "../api/generated/results";
import type { TestDetail, TestRef } from "../api/types";
import { ulpBars } from "../model/charts";
import { adapter, browser, error, grouped, number, percent, seconds, short } from "../model/format";
import { accusation } from "../model/locate";
import { testState } from "../model/matrix";
import type { ResultsState } from "../model/results";
import { asState } from "../model/verdicts";
import { Bars } from "./Bars";
import { Fact, VerdictBadge } from "./Basics";
import { Elements } from "./Elements";
import { ShareDialog } from "./ShareDialog";

type ShowLine = (file: string, line: number) => void;

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
          accused={accusation(state.locates[column.id], test.node)}
          share={() => setShared(column.name)}
          showLine={props.showLine}
        />
      ))}
      {shared !== null && (
        <ShareDialog suite={props.suite} test={test} device={shared} close={() => setShared(null)} />
      )}
      {tolerances && tolerances.length > 0 && <Tolerances tolerances={tolerances} />}
    </>
  );
}

function DeviceVerdict(props: {
  device: DeviceDocument;
  badge: preact.ComponentChildren;
  result: TestResult | undefined;
  /** By a search for faulty kernels: told where no validation says more. */
  accused: Suspect | undefined;
  share: () => void;
  showLine: ShowLine;
}) {
  const { device, result, accused } = props;
  return (
    <article class="card device-verdict">
      <h3>
        {device.name} {props.badge}
        <span class="muted">
          {[browser(device.user_agent), adapter(device.adapter)].filter(Boolean).join(" · ")}
        </span>
        {result && (
          <button type="button" class="share-button" onClick={props.share}>
            Share…
          </button>
        )}
      </h3>
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

function Evidence(props: { result: TestResult; showLine: ShowLine }) {
  const { result } = props;
  const compared = result.max_abs_error !== null;
  return (
    <>
      {result.message !== "" && <p class="message">{result.message}</p>}
      {result.edited && <p class="muted">Run with edited WGSL.</p>}
      {result.diagnostics.length > 0 && (
        <Diagnostics diagnostics={result.diagnostics} showLine={props.showLine} />
      )}
      {compared && (
        <>
          <dl class="numbers">
            <Fact name="max abs error" value={error(result.max_abs_error)} />
            <Fact name="max rel error" value={error(result.max_rel_error)} />
            <Fact
              name="max ULP"
              value={typeof result.max_ulp === "number" ? short(result.max_ulp) : number(result.max_ulp)}
            />
            <Fact
              name="out of tolerance"
              value={`${short(result.mismatched)} of ${short(result.total)}`}
              note={result.mismatched > 0 ? percent(result.mismatched, result.total) : ""}
            />
            {result.unbounded > 0 && (
              <Fact
                name="unbounded"
                value={`${short(result.unbounded)} of ${short(result.total)}`}
                note="WGSL promises nothing for them"
              />
            )}
            {result.tied > 0 && <Fact name="other choices among equals" value={grouped(result.tied)} />}
            {result.nan > 0 && <Fact name="NaN" value={grouped(result.nan)} />}
            {result.inf > 0 && <Fact name="Inf" value={grouped(result.inf)} />}
          </dl>
          {result.ulp_histogram.length > 0 && (
            <Bars title="Elements by ULP distance" bars={ulpBars(result.ulp_histogram)} labelled />
          )}
          <Elements
            rows={[
              {
                name: result.mismatched > 0 ? "first out of tolerance" : "first unbounded",
                element: result.first,
              },
              { name: "worst", element: result.worst },
            ]}
          />
        </>
      )}
      {result.error && <DeviceSaid error={result.error} />}
      <p class="muted times">
        {result.variant && <>variant {result.variant} · </>}
        {["fetch", "compile", "run", "gpu", "compare"]
          .filter((part) => result.seconds[part] !== undefined)
          .map((part) => `${part} ${seconds(result.seconds[part] ?? 0)}`)
          .join(" · ")}
      </p>
    </>
  );
}

function DeviceSaid({ error }: { error: ErrorEvidence }) {
  const types = error.arguments?.map((type) => `${type.dtype}[${type.shape.join(", ")}]`).join(", ");
  const lines = [
    ["kind", error.kind],
    ["GPU message", error.gpu_message],
    ["device lost", error.lost_reason],
    ["arguments", types],
    ["stack", error.stack],
  ].filter((line): line is [string, string] => Boolean(line[1]));
  return (
    <details>
      <summary>What the device said</summary>
      <dl class="evidence">
        {lines.map(([name, text]) => (
          <>
            <dt>{name}</dt>
            <dd>
              <pre>{text}</pre>
            </dd>
          </>
        ))}
      </dl>
    </details>
  );
}

function Diagnostics(props: { diagnostics: readonly Diagnostic[]; showLine: ShowLine }) {
  return (
    <ul class="diagnostics" aria-label="WGSL compiler messages">
      {props.diagnostics.map((item) => (
        <li key={`${item.file}:${item.line}:${item.column}:${item.message}`} class={`is-${item.severity}`}>
          <button type="button" class="link" onClick={() => props.showLine(item.file, item.line)}>
            {item.file}:{item.line}:{item.column}
          </button>{" "}
          <strong>{item.severity}</strong> {item.message}
          {item.source !== "" && (
            <pre>
              {item.source}
              {"\n"}
              {caret(item)}
            </pre>
          )}
        </li>
      ))}
    </ul>
  );
}

/** Under the column meant, with the source's own tabs so that it stays there. */
function caret(item: Diagnostic): string {
  return `${item.source.slice(0, Math.max(0, item.column - 1)).replace(/[^\t]/g, " ")}^`;
}

function Tolerances(props: { tolerances: readonly ToleranceDocument[] }) {
  return (
    <section class="tolerances">
      <h3>Tolerance</h3>
      {props.tolerances.map((tolerance, output) => (
        <div key={output}>
          <p>
            {props.tolerances.length > 1 && `output ${output}: `}
            <code>
              |got − expected| ≤{" "}
              {tolerance.bound
                ? "bound of the element"
                : `${error(tolerance.absolute)} + ${error(tolerance.relative)} · |expected|`}
            </code>
            {tolerance.bound && `, at most ${error(tolerance.absolute)}`}
            {tolerance.ties && ", or another choice among equals"}
          </p>
          <ul>
            {tolerance.reasons.map((reason) => (
              <li key={reason}>{reason}</li>
            ))}
          </ul>
        </div>
      ))}
    </section>
  );
}
