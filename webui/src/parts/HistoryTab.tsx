/** What became of a test, run by run, on each sort of device. */

import { useState } from "preact/hooks";
import { api } from "../api/client";
import type { DeviceHistory, HistoryPoint, Trend } from "../api/generated/results";
import type { KernelNow } from "../api/types";
import { percent, seconds } from "../model/format";
import { shareTick } from "../model/headline";
import {
  type Curve,
  curve,
  errorScale,
  facts,
  isOlder,
  lastOfNow,
  pointText,
  timeScale,
  version,
} from "../model/history";
import { asState, GLYPH, OLDER, VERDICTS, WORD } from "../model/verdicts";
import { useResource } from "../state/resource";
import { Fact, Pending, VerdictBadge } from "./Basics";
import { Table } from "./Table";

export function HistoryTab(props: {
  suite: string;
  test: string;
  round: string;
  /** The test's kernel as it is on disk. */
  now: KernelNow | undefined;
}) {
  const found = useResource(`${props.suite} ${props.test} ${props.round}`, () =>
    api.testHistory(props.suite, props.test),
  );
  if (found.data === null) return <Pending what="the history" of={found} />;
  if (found.data.devices.length === 0)
    return <p class="hint">No runs are recorded yet. Every validation from now on is.</p>;
  return (
    <>
      {found.data.devices.map((entry) => (
        <DeviceCard key={`${entry.device} ${entry.gpu}`} entry={entry} now={props.now} />
      ))}
    </>
  );
}

function DeviceCard({ entry, now }: { entry: DeviceHistory; now: KernelNow | undefined }) {
  const { trend, points } = entry;
  const [chosen, setChosen] = useState<number | null>(null);
  const shown = Math.min(chosen ?? points.length - 1, points.length - 1);
  const point = points[shown];
  const last = points[lastOfNow(points, now)];
  const verdict = asState(last?.verdict ?? trend.last.verdict);
  const older = last !== undefined && isOlder(last, now);
  return (
    <article class="stack card device-verdict history">
      <h3>
        {entry.device}{" "}
        <VerdictBadge
          state={older ? "stale" : verdict}
          word={older ? `${WORD[verdict]}, ${OLDER}` : undefined}
        />
        {trend.new_failure && !isOlder(trend.last, now) && <span class="verdict is-flaky">new failure</span>}
        {trend.flaky_runs > 0 && (
          <span class="verdict is-flaky">flaky {percent(trend.flaky_runs, trend.runs)}</span>
        )}
        <span class="muted">{entry.gpu}</span>
      </h3>
      <Strip points={points} now={now} shown={shown} choose={setChosen} />
      {point && <Chosen text={pointText(point, isOlder(point, now))} message={point.message} />}
      <dl class="row numbers">
        {facts(trend, now).map((fact) => (
          <Fact key={fact.name} {...fact} />
        ))}
      </dl>
      <Charts points={points} shown={shown} />
      {trend.versions.length > 1 && <Versions versions={trend.versions} />}
    </article>
  );
}

/** A square a run, oldest first. One stop for the Tab key; arrows go from run to run. */
function Strip(props: {
  points: readonly HistoryPoint[];
  now: KernelNow | undefined;
  shown: number;
  choose: (at: number) => void;
}) {
  const { points, shown } = props;
  const move = (event: KeyboardEvent) => {
    const to: Record<string, number> = {
      ArrowLeft: shown - 1,
      ArrowRight: shown + 1,
      Home: 0,
      End: points.length - 1,
    };
    const next = to[event.key];
    if (next === undefined || next < 0 || next >= points.length) return;
    event.preventDefault();
    props.choose(next);
    const strip = event.currentTarget;
    if (strip instanceof HTMLElement) strip.querySelector<HTMLElement>(`[data-run="${next}"]`)?.focus();
  };
  return (
    <div class="row strip" role="toolbar" aria-label="Runs, oldest first" onKeyDown={move}>
      {points.map((point, at) => {
        const state = asState(point.verdict);
        const older = isOlder(point, props.now);
        const text = pointText(point, older);
        return (
          <span key={at} class="strip-place">
            {(at === 0 || point.device_changed) && (
              <span class="strip-mark" title={`${point.device} from here on`}>
                {version(point.device)}
              </span>
            )}
            {point.kernel_changed && (
              <span class="strip-mark edit" title="The kernel changed here">
                ✎<span class="sr-only"> kernel changed</span>
              </span>
            )}
            <button
              type="button"
              data-run={at}
              class={`run verdict is-${older ? "stale" : state}${point.flaky ? " flaky" : ""}`}
              aria-pressed={at === shown}
              aria-label={text}
              title={text}
              tabIndex={at === shown ? 0 : -1}
              onClick={() => props.choose(at)}
            >
              {GLYPH[state]}
            </button>
          </span>
        );
      })}
    </div>
  );
}

function Chosen({ text, message }: { text: string; message: string }) {
  return (
    <div class="stack tight chosen" aria-live="polite">
      <p>{text}</p>
      {message !== "" && <p class="message">{message}</p>}
    </div>
  );
}

const SIZE = { width: 420, height: 64 };
const LEFT = 52;
const TOP = 8;

function Charts(props: { points: readonly HistoryPoint[]; shown: number }) {
  const { points } = props;
  if (points.length < 2) return null;
  const onGpu = points.some((point) => point.gpu_seconds !== null);
  const times = points.map((point) => (onGpu ? point.gpu_seconds : point.seconds));
  const shares = points.map(({ bound_share: share }) => (share === null ? null : Number(share)));
  const errors = points.map((point) => point.max_abs_error);
  return (
    <div class="history-charts">
      {isKnown(times) && (
        <Chart
          {...props}
          name={onGpu ? "GPU time" : "Time, the mean of each run's batch"}
          curve={curve(times, SIZE, timeScale(times))}
        />
      )}
      {isKnown(shares) && (
        <Chart
          {...props}
          name="Of its bound, the worst element (log scale)"
          curve={curve(shares, SIZE, errorScale(shares, shareTick))}
        />
      )}
      {isKnown(errors) && (
        <Chart {...props} name="Max abs error (log scale)" curve={curve(errors, SIZE, errorScale(errors))} />
      )}
    </div>
  );
}

function isKnown(values: readonly (number | null)[]): boolean {
  return values.some((value) => value !== null);
}

function Chart(props: { name: string; points: readonly HistoryPoint[]; shown: number; curve: Curve }) {
  const { points, shown } = props;
  const { path, dots, ticks } = props.curve;
  const x = (at: number) => (at / points.length) * SIZE.width;
  const news = points.flatMap((point, at) => (point.device_changed || point.kernel_changed ? [at] : []));
  return (
    <figure class="chart">
      <figcaption>{props.name}</figcaption>
      <svg viewBox={`0 0 ${LEFT + SIZE.width + 4} ${TOP + SIZE.height + 8}`} role="img">
        <title>{`${props.name} over ${points.length} runs, oldest first`}</title>
        <g transform={`translate(${LEFT} ${TOP})`}>
          <rect
            class="now"
            x={x(shown)}
            width={Math.max(2, SIZE.width / points.length)}
            height={SIZE.height}
          />
          {ticks.map((tick) => (
            <g key={tick.name} class="tick">
              <line x2={SIZE.width} y1={tick.y} y2={tick.y} />
              <text x={-6} y={tick.y} text-anchor="end">
                {tick.name}
              </text>
            </g>
          ))}
          {news.map((at) => (
            <line key={at} class="news" x1={x(at)} x2={x(at)} y2={SIZE.height}>
              <title>
                {points[at]?.device_changed ? `${points[at].device} from here on` : "The kernel changed here"}
              </title>
            </line>
          ))}
          <path d={path} />
          {dots.map((dot) => (
            <circle key={dot.x} cx={dot.x} cy={dot.y} r={2} />
          ))}
        </g>
      </svg>
    </figure>
  );
}

function Versions({ versions }: { versions: Trend["versions"] }) {
  const verdicts = VERDICTS.filter((verdict) => versions.some((row) => row[verdict] > 0));
  return (
    <Table
      heads={["version", "runs", ...verdicts, "median time (of batches)"]}
      rows={versions.map((row) => ({
        key: row.device,
        cells: [
          row.device,
          row.runs,
          ...verdicts.map((verdict) => row[verdict]),
          row.seconds === null ? "–" : seconds(row.seconds),
        ],
      }))}
    />
  );
}
