import type { LogScale } from "../model/charts";

/** Grid lines of a log scale, with their powers of ten. `zero`: the lowest stands for an exact zero. */
export function LogAxis(props: {
  scale: LogScale;
  zero: boolean;
  left: number;
  right: number;
  y: (value: number) => number;
}) {
  const { scale, left, right, y } = props;
  return (
    <>
      {scale.ticks.map((tick) => (
        <g key={tick} class="tick">
          <line x1={left} x2={right} y1={y(10 ** tick)} y2={y(10 ** tick)} />
          <text x={left - 6} y={y(10 ** tick)} text-anchor="end">
            {props.zero && tick === scale.ticks[0] ? "0" : `1e${tick}`}
          </text>
        </g>
      ))}
    </>
  );
}
