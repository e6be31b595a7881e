import { useState } from "preact/hooks";
import type { WrongOutput } from "../api/generated/results";
import { axesText, cellText, runs, SHADES } from "../model/heatmap";

interface Place {
  row: number;
  column: number;
}

const MOVES: Record<string, Place> = {
  ArrowLeft: { row: 0, column: -1 },
  ArrowRight: { row: 0, column: 1 },
  ArrowUp: { row: -1, column: 0 },
  ArrowDown: { row: 1, column: 0 },
};

/** Where an output is wrong. The pointer or the arrow keys read out single cells. */
export function HeatMapView({ output }: { output: WrongOutput }) {
  const map = output.heatmap;
  const [at, setAt] = useState<Place | null>(null);
  const name = `Error ${axesText(output)}`;
  const clamp = (place: Place): Place => ({
    row: Math.min(map.rows - 1, Math.max(0, place.row)),
    column: Math.min(map.columns - 1, Math.max(0, place.column)),
  });
  const point = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    setAt(
      clamp({
        row: Math.floor(((event.clientY - box.top) / box.height) * map.rows),
        column: Math.floor(((event.clientX - box.left) / box.width) * map.columns),
      }),
    );
  };
  const keys = (event: KeyboardEvent) => {
    const move = MOVES[event.key];
    if (move === undefined) return;
    event.preventDefault();
    setAt((old) =>
      old === null
        ? { row: 0, column: 0 }
        : clamp({ row: old.row + move.row, column: old.column + move.column }),
    );
  };
  const down = output.shape.at(-2) ?? 1;
  const across = output.shape.at(-1) ?? 1;
  const cell = Math.max(5, Math.min(22, Math.floor(220 / map.rows)));
  return (
    <figure class="stack heat">
      <figcaption>{name}</figcaption>
      <div class="heat-frame" style={{ "--columns": map.columns }}>
        <span class="heat-down" aria-hidden="true">
          <span>0</span>
          {down > 1 && <span>{down - 1}</span>}
        </span>
        <svg
          viewBox={`0 0 ${map.columns} ${map.rows}`}
          preserveAspectRatio="none"
          style={{ height: `${cell * map.rows}px` }}
          role="application"
          aria-label={`${name}. Arrow keys read out the cells.`}
          // In SVG the attribute is written small.
          tabindex={0}
          onPointerMove={point}
          onPointerDown={point}
          onKeyDown={keys}
        >
          <rect class="shade shade-0" width={map.columns} height={map.rows} />
          {runs(map).map((run) => (
            <rect
              key={`${run.row} ${run.column}`}
              class={`shade shade-${run.shade}`}
              x={run.column}
              y={run.row}
              width={run.length}
              height={1}
            />
          ))}
          {at !== null &&
            ["heat-halo", "heat-cursor"].map((name) => (
              <rect key={name} class={name} x={at.column} y={at.row} width={1} height={1} />
            ))}
        </svg>
        <span class="heat-across" aria-hidden="true">
          <span>0</span>
          {across > 1 && <span>{across - 1}</span>}
        </span>
      </div>
      <output class="heat-readout" aria-live="polite">
        {at === null
          ? "Point at a cell, or use the arrow keys, to read it."
          : cellText(output, at.row, at.column)}
      </output>
      <ul class="row heat-legend" aria-label="Shades">
        {(output.unbounded ? [...SHADES, "unbounded: WGSL promises nothing"] : SHADES).map((name, shade) => (
          <li key={name}>
            <span class={`heat-swatch shade shade-${shade}`} aria-hidden="true" />
            {name}
          </li>
        ))}
      </ul>
    </figure>
  );
}
