import { type Release, stepLine } from "./model";

const WIDTH = 640;
const HEIGHT = 130;
const LEFT = 34;
const TOP = 30;

/** Devices that hold the version over time, and the steps of its release. */
export function CoverageChart(props: { release: Release; now: number }) {
  const { release, now } = props;
  const first = Math.min(release.events[0]?.at ?? now, release.coverage[0]?.[0] ?? now);
  const over = release.status === "rolled-back" ? release.since : now;
  const last = release.coverage.at(-1)?.[0] ?? now;
  const end = release.status === "rolled-back" ? Math.max(over, last) + 2000 : Math.max(now, first + 1);
  const most = Math.max(1, ...release.coverage.map(([, devices]) => devices));
  const points: Release["coverage"] = [[first, 0], ...release.coverage];
  const x = (at: number) => LEFT + ((at - first) / Math.max(end - first, 1)) * WIDTH;
  const highest = release.coverage.at(-1)?.[1] ?? 0;
  return (
    <figure class="chart coverage">
      <figcaption>Devices that hold {release.version}</figcaption>
      <svg viewBox={`0 0 ${LEFT + WIDTH + 6} ${TOP + HEIGHT + 18}`} role="img">
        <title>{`${highest} devices hold it now, ${most} at most.`}</title>
        <line class="axis" x1={LEFT} x2={LEFT + WIDTH} y1={TOP + HEIGHT} y2={TOP + HEIGHT} />
        <text x={LEFT - 5} y={TOP + 4} text-anchor="end">
          {most}
        </text>
        <text x={LEFT - 5} y={TOP + HEIGHT} text-anchor="end">
          0
        </text>
        {release.events.map((event, i) => (
          <g key={i} class={event.status === "rolled-back" ? "event is-fail" : "event"}>
            <line x1={x(event.at)} x2={x(event.at)} y1={TOP} y2={TOP + HEIGHT} />
            <text x={x(event.at) + 3} y={TOP - 18 + 12 * (i % 2)}>
              {event.status === "rolled-back" ? "✗ rolled back" : release.steps[event.step]}
            </text>
          </g>
        ))}
        <path
          class="line"
          transform={`translate(${LEFT} ${TOP})`}
          d={stepLine(points, end, most, WIDTH, HEIGHT)}
        />
        <text x={LEFT} y={TOP + HEIGHT + 14}>
          0 s
        </text>
        <text x={LEFT + WIDTH} y={TOP + HEIGHT + 14} text-anchor="end">
          {Math.round((end - first) / 1000)} s
        </text>
      </svg>
    </figure>
  );
}
