import { elapsed, labelRows, type Release, stepLine } from "./model";

const HEIGHT = 130;
const LEFT = 40;
const ROWS = 3;
const ROW = 12;
const TOP = 10 + ROW * ROWS;
/** Of a character of a label, about. */
const CHARACTER = 5.5;

/** Devices that hold the version over time, and the steps of its release. */
export function CoverageChart(props: { release: Release; now: number }) {
  const { release, now } = props;
  // One unit is one pixel also on a phone, so that its words can be read.
  const width = Math.min(640, Math.max(220, document.documentElement.clientWidth - 110));
  const first = Math.min(release.events[0]?.at ?? now, release.coverage[0]?.[0] ?? now);
  const over = release.status === "rolled-back" ? release.since : now;
  const last = release.coverage.at(-1)?.[0] ?? now;
  const end = release.status === "rolled-back" ? Math.max(over, last) + 2000 : Math.max(now, first + 1);
  const most = Math.max(1, ...release.coverage.map(([, devices]) => devices));
  const points: Release["coverage"] = [[first, 0], ...release.coverage];
  const x = (at: number) => LEFT + ((at - first) / Math.max(end - first, 1)) * width;
  const highest = release.coverage.at(-1)?.[1] ?? 0;
  const labels = release.events.map(({ at, step, status }) => ({
    at: x(at) + 3,
    text: status === "rolled-back" ? "✗ rolled back" : (release.steps[step] ?? ""),
    over: status === "rolled-back",
  }));
  const rows = labelRows(
    labels.map(({ at, text }) => [at, at + CHARACTER * text.length]),
    ROWS,
    LEFT + width + 6,
  );
  return (
    <figure class="chart coverage">
      <figcaption>Devices that hold {release.version}</figcaption>
      <svg viewBox={`0 0 ${LEFT + width + 6} ${TOP + HEIGHT + 18}`} role="img">
        <title>{`${highest} devices hold it now, ${most} at most.`}</title>
        <line class="axis" x1={LEFT} x2={LEFT + width} y1={TOP + HEIGHT} y2={TOP + HEIGHT} />
        <text x={LEFT - 5} y={TOP + 4} text-anchor="end">
          {most}
        </text>
        <text x={LEFT - 5} y={TOP + HEIGHT} text-anchor="end">
          0
        </text>
        {labels.map(({ at, text, over }, i) => {
          const row = rows[i] ?? null;
          const y = row === null ? TOP : ROW * row + 2;
          return (
            <g key={i} class={over ? "event is-fail" : "event"}>
              <line x1={at - 3} x2={at - 3} y1={y} y2={TOP + HEIGHT}>
                <title>{text}</title>
              </line>
              {row !== null && (
                <text
                  x={at + CHARACTER * text.length > LEFT + width + 6 ? at - 6 : at}
                  y={y + 9}
                  text-anchor={at + CHARACTER * text.length > LEFT + width + 6 ? "end" : "start"}
                >
                  {text}
                </text>
              )}
            </g>
          );
        })}
        <path
          class="line"
          transform={`translate(${LEFT} ${TOP})`}
          d={stepLine(points, end, most, width, HEIGHT)}
        />
        <text x={LEFT} y={TOP + HEIGHT + 14}>
          0 s
        </text>
        <text x={LEFT + width} y={TOP + HEIGHT + 14} text-anchor="end">
          {elapsed(end - first)}
        </text>
      </svg>
    </figure>
  );
}
