import { logScale } from "../model/charts";
import { error } from "../model/format";
import { tokenState, type WrittenToken } from "../model/generation";
import { LogAxis } from "./LogAxis";

const WIDTH = 520;
const HEIGHT = 110;
const LEFT = 38;
const RIGHT = 8;
const TOP = 10;
const BOTTOM = 18;

/** How far the logits of each step are from the reference's, on a log scale, and what they may be. */
export function GapChart(props: { tokens: readonly WrittenToken[]; limit: number | null }) {
  const { limit } = props;
  const compared = props.tokens.flatMap((token) =>
    typeof token.compared?.max_abs_error === "number" ? [{ token, gap: token.compared.max_abs_error }] : [],
  );
  if (compared.length === 0) return null;
  const values = [...compared.map(({ gap }) => gap), ...(limit === null ? [] : [limit])];
  const scale = logScale(values);
  const first = props.tokens[0]?.position ?? 0;
  const columns = Math.max(props.tokens.length, 2);
  const x = (position: number) => LEFT + ((position - first + 0.5) / columns) * (WIDTH - LEFT - RIGHT);
  const y = (value: number) => TOP + (1 - scale.position(value)) * (HEIGHT - TOP - BOTTOM);
  const worst = compared.reduce((one, other) => (other.gap > one.gap ? other : one));
  return (
    <figure class="chart error-chart">
      <figcaption>Largest difference of a step's logits from the reference's (log scale)</figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img">
        <title>{`Of ${compared.length} steps the largest is ${error(worst.gap)}, at position ${worst.token.position}.`}</title>
        <LogAxis scale={scale} zero={values.includes(0)} left={LEFT} right={WIDTH - RIGHT} y={y} />
        {limit !== null && (
          <g class="limit">
            <line x1={LEFT} x2={WIDTH - RIGHT} y1={y(limit)} y2={y(limit)} />
            <text x={LEFT + 4} y={y(limit) - 4}>
              model tolerance {error(limit)}
            </text>
          </g>
        )}
        {compared.map(({ token, gap }) => (
          <circle
            key={token.position}
            class={`point is-${tokenState(token)}`}
            cx={x(token.position)}
            cy={y(gap)}
            r={4}
          >
            <title>{`Position ${token.position}: ${error(gap)}`}</title>
          </circle>
        ))}
      </svg>
    </figure>
  );
}
