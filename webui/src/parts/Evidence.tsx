/** What is known of one test's verdict: numbers, elements, compiler's messages, the device's own words. */

import type { Diagnostic, ErrorEvidence, TestResult, ToleranceDocument } from "../api/generated/results";
import { ulpBars } from "../model/charts";
import { caret, error, grouped, percent, seconds, short, tensorType } from "../model/format";
import { ofBound, repeatsDiagnostics } from "../model/headline";
import { Bars } from "./Bars";
import { Fact } from "./Basics";
import { Elements } from "./Elements";
import { ScrollBox } from "./ScrollBox";

export type ShowLine = (file: string, line: number) => void;

/** `showLine`: where there is WGSL to turn to. */
export function Evidence(props: { result: TestResult; showLine?: ShowLine }) {
  const { result } = props;
  const compared = result.max_abs_error !== null;
  const headline = ofBound(result);
  const { gpu } = result.seconds;
  return (
    <>
      {result.message !== "" && !repeatsDiagnostics(result) && (
        <p class={`message is-${result.verdict}`}>{result.message}</p>
      )}
      {result.edited && <p class="muted">The kernel was edited.</p>}
      {result.diagnostics.length > 0 && (
        <Diagnostics diagnostics={result.diagnostics} showLine={props.showLine} />
      )}
      {compared && (
        <>
          <dl class="row numbers">
            {headline !== null && <Fact name="worst element" value={headline} />}
            {gpu !== undefined && <Fact name="GPU time" value={seconds(gpu)} />}
            <Fact name="max abs error" value={error(result.max_abs_error)} />
            <Fact name="max rel error" value={error(result.max_rel_error)} />
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
            tolerances={result.tolerances}
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
        {[
          ...(result.variant ? [`variant ${result.variant}`] : []),
          ...["compile", "run", "fetch", "compare"]
            // Tests run in batches: of one alone the GPU knows the time, the clock does not.
            .filter((part) => (result.seconds[part] ?? 0) > 0 && !(part === "run" && gpu !== undefined))
            .map(
              (part) =>
                `${part} ${seconds(result.seconds[part] ?? 0)}${part === "run" ? " (mean of its batch)" : ""}`,
            ),
        ].join(" · ")}
      </p>
    </>
  );
}

function DeviceSaid({ error }: { error: ErrorEvidence }) {
  const types = error.arguments?.map(({ dtype, shape }) => tensorType(dtype, shape)).join(", ");
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
              <ScrollBox class="said" label={name}>
                <pre>{text}</pre>
              </ScrollBox>
            </dd>
          </>
        ))}
      </dl>
    </details>
  );
}

function Diagnostics({
  diagnostics,
  showLine,
}: {
  diagnostics: readonly Diagnostic[];
  showLine?: ShowLine | undefined;
}) {
  return (
    <ul class="stack diagnostics" aria-label="WGSL compiler messages">
      {diagnostics.map((item) => (
        <li key={`${placeOf(item)}:${item.message}`} class={`is-${item.severity}`}>
          {showLine ? (
            <button type="button" class="link" onClick={() => showLine(item.file, item.line)}>
              {placeOf(item)}
            </button>
          ) : (
            <code>{placeOf(item)}</code>
          )}{" "}
          <strong>{item.severity}</strong> {item.message}
          {item.source !== "" && (
            <ScrollBox class="source" label="Line of WGSL">
              <pre>
                {item.source}
                {"\n"}
                {caret(item.source, item.column)}
              </pre>
            </ScrollBox>
          )}
        </li>
      ))}
    </ul>
  );
}

function placeOf({ file, line, column }: Diagnostic): string {
  return `${file}:${line}:${column}`;
}

/** What each output may differ by, and why. */
export function Tolerances(props: { tolerances: readonly ToleranceDocument[] }) {
  if (props.tolerances.length === 0) return null;
  return (
    <section class="stack tight tolerances">
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
