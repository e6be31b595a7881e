import type { OffloadStep } from "../api/generated/results";
import { logScale } from "../model/charts";
import { error } from "../model/format";
import { fate, finite, metricText, stepState } from "../model/offload";
import { GLYPH } from "../model/verdicts";
import { LogAxis } from "./LogAxis";

const WIDTH = 520;
const HEIGHT = 130;
const LEFT = 38;
const RIGHT = 8;
const TOP = 10;
const BOTTOM = 18;

/** The model's max error after each move, on a log scale: where it leaps is what broke it. */
export function ErrorChart(props: {
  steps: readonly OffloadStep[];
  /** Of each, whether it is of older texts. */
  older: readonly boolean[];
  total: number;
  limit: number | null;
  selected: string | null;
}) {
  const { steps, limit } = props;
  const errors = steps.map((step) => finite(step.model_metric?.max_abs_error));
  const values = [...errors, limit].filter((value) => value !== null);
  if (values.length === 0) return null;
  const scale = logScale(values);
  const zero = values.includes(0);
  const columns = Math.max(props.total, steps.length, 2);
  const x = (at: number) => LEFT + ((at + 0.5) / columns) * (WIDTH - LEFT - RIGHT);
  const y = (value: number) => TOP + (1 - scale.position(value)) * (HEIGHT - TOP - BOTTOM);
  const line = steps.flatMap((step, at) => (step.kept ? [`${x(at)},${y(errors[at] ?? 0)}`] : [])).join(" ");
  return (
    <figure class="chart error-chart">
      <figcaption>Model's max error after each move (log scale)</figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img">
        <title>
          {`Max error after each move. ${steps.map((step, at) => `${step.kernel}: ${error(errors[at])}`).join("; ")}`}
        </title>
        <LogAxis scale={scale} zero={zero} left={LEFT} right={WIDTH - RIGHT} y={y} />
        {limit !== null && (
          <g class="limit">
            <line x1={LEFT} x2={WIDTH - RIGHT} y1={y(limit)} y2={y(limit)} />
            <text x={LEFT + 4} y={y(limit) - 4}>
              tolerance {error(limit)}
            </text>
          </g>
        )}
        <polyline points={line} />
        {steps.map((step, at) => {
          const value = errors[at];
          const state = props.older[at] ? "stale" : stepState(step);
          const chosen = step.kernel === props.selected ? " selected" : "";
          const title = `${at + 1}. ${step.kernel}: ${metricText(step.model_metric).error}, ${fate(step)}`;
          return value === null || value === undefined ? (
            <text
              key={step.kernel}
              class={`absent is-${state}`}
              x={x(at)}
              y={HEIGHT - BOTTOM + 12}
              text-anchor="middle"
            >
              <title>{title}</title>
              {GLYPH[state]}
            </text>
          ) : step.kept ? (
            <circle key={step.kernel} class={`point is-${state}${chosen}`} cx={x(at)} cy={y(value)} r={4}>
              <title>{title}</title>
            </circle>
          ) : (
            <path
              key={step.kernel}
              class={`point cross is-${state}${chosen}`}
              d={`M${x(at) - 4} ${y(value) - 4}l8 8m0 -8l-8 8`}
            >
              <title>{title}</title>
            </path>
          );
        })}
      </svg>
    </figure>
  );
}
