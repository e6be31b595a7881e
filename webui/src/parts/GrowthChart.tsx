import { useState } from "preact/hooks";
import { logScale } from "../model/charts";
import { error, number } from "../model/format";
import { type GrowthPoint, MINIMAL } from "../model/locate";
import { LogAxis } from "./LogAxis";

const WIDTH = 520;
const HEIGHT = 170;
const LEFT = 38;
const RIGHT = 8;
const TOP = 14;
const BOTTOM = 18;

/** The error of every node's output when all run on the device, in the order of the graph, on a log scale. */
export function GrowthChart(props: {
  points: readonly GrowthPoint[];
  selected: string | null;
  select: (node: string) => void;
}) {
  const { points, selected } = props;
  const [at, setAt] = useState<number | null>(null);
  const values = points.flatMap((point) => [point.error, point.local]).filter((value) => value !== null);
  if (points.length === 0 || values.length === 0) return null;
  const scale = logScale(values);
  const x = (place: number) => LEFT + ((place + 0.5) / points.length) * (WIDTH - LEFT - RIGHT);
  const y = (value: number) => TOP + (1 - scale.position(value)) * (HEIGHT - TOP - BOTTOM);
  // What is no number leaves the chart at its top.
  const top = (value: number | null) => (value === null ? TOP : y(value));
  const near = (event: MouseEvent): number => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const across = ((event.clientX - box.left) / box.width) * WIDTH;
    const place = Math.floor(((across - LEFT) / (WIDTH - LEFT - RIGHT)) * points.length);
    return Math.min(points.length - 1, Math.max(0, place));
  };
  const keys = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const point = at === null ? undefined : points[at];
    if (event.key === "Enter" && point !== undefined) props.select(point.node);
    if (step === 0) return;
    event.preventDefault();
    setAt((old) => (old === null ? 0 : Math.min(points.length - 1, Math.max(0, old + step))));
  };
  const shown = at === null ? undefined : points[at];
  const title = "Error along the graph, largest of each node's output (log scale)";
  return (
    <figure class="chart error-chart growth-chart">
      <figcaption>{title}</figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        role="application"
        aria-label={`${title}. Arrow keys go from node to node, Enter selects one.`}
        // In SVG the attribute is written small.
        tabindex={0}
        onPointerMove={(event) => setAt(near(event))}
        onClick={(event) => {
          const point = points[near(event)];
          if (point !== undefined) props.select(point.node);
        }}
        onKeyDown={keys}
      >
        <LogAxis scale={scale} zero={values.includes(0)} left={LEFT} right={WIDTH - RIGHT} y={y} />
        {at !== null && <line class="growth-cursor" x1={x(at)} x2={x(at)} y1={TOP} y2={HEIGHT - BOTTOM} />}
        {points.map(
          (point, place) =>
            point.local !== null && (
              <circle key={point.node} class="growth-local" cx={x(place)} cy={y(point.local)} r={1.8} />
            ),
        )}
        <polyline
          class="growth-line"
          points={points.map((point, place) => `${x(place)},${top(point.error)}`).join(" ")}
        />
        {points.map(
          (point, place) =>
            (point.minimal || point.node === selected) && (
              <path
                key={point.node}
                class={point.minimal ? "growth-minimal" : "growth-selected"}
                d={`M${x(place)} ${top(point.error) - 6}l6 6l-6 6l-6 -6z`}
              />
            ),
        )}
      </svg>
      <output class="heat-readout" aria-live="polite">
        {shown === undefined ? "Point at the chart, or use the arrow keys, to read a node." : reading(shown)}
      </output>
      <ul class="row heat-legend" aria-label="Signs">
        <li>
          <span class="key-line" aria-hidden="true" />
          in the whole model
        </li>
        <li>
          <span class="key-dot" aria-hidden="true" />
          its own part, given the right inputs
        </li>
        {points.some((point) => point.minimal) && (
          <li>
            <span class="key-minimal" aria-hidden="true">
              {MINIMAL}
            </span>
            in the minimal set
          </li>
        )}
      </ul>
    </figure>
  );
}

function reading(point: GrowthPoint): string {
  const own = point.local === null ? "" : `, ${error(point.local)} of its own`;
  const times = point.amplification === null ? "" : `, ${number(point.amplification, 2)} times what came in`;
  const set = point.minimal ? "; in the minimal set" : "";
  return `${point.node} ${point.kernel}: ${point.error === null ? "not a number" : error(point.error)}${own}${times}${set}`;
}
