/** The picture of the graph: every node in its place, coloured by what happened to it. */

import { useEffect, useRef } from "preact/hooks";
import { GraphNodes } from "../graph/GraphNodes";
import { Legend } from "../graph/Legend";
import { Overview } from "../graph/Overview";
import { step } from "../graph/steps";
import type { NodeStates, View } from "../graph/types";
import { useLayout } from "../graph/use-layout";
import { useViewport } from "../graph/use-viewport";
import { fit, opening, reveal, zoom } from "../graph/viewport";
import type { Marks } from "../model/locate";
import { Loading } from "./Basics";
import type { Shared } from "./shared";

interface GraphPaneProps extends Shared {
  states: NodeStates;
  /** Drawn at the corners of some nodes. */
  marks: Marks;
  view: View;
}

/** Below this scale names cannot be read: only coloured boxes are drawn. */
const NAMES_FROM = 0.33;

export function GraphPane(props: GraphPaneProps) {
  const { states, select } = props;
  const { graph } = props.suite;
  const selected = props.node?.id ?? null;
  const svg = useRef<SVGSVGElement>(null);
  const state = useLayout(graph);
  const { view, pane, setView, dragged } = useViewport(svg);
  const layout = state !== null && "layout" in state ? state.layout : null;
  const ready = layout !== null && pane.width > 0;

  // Once the size is known, not at each resize.
  useEffect(() => {
    if (layout === null || pane.width === 0) return;
    const top = layout.boxes.find((box) => box.kind === "kernel");
    setView(() => opening(layout, pane, top ? top.x + top.width / 2 : layout.width / 2));
  }, [layout, pane.width > 0]);

  // When the selection or the room changes, not when panning.
  useEffect(() => {
    const box = layout?.boxes.find((candidate) => candidate.id === selected);
    if (box !== undefined && pane.width > 0) setView((old) => reveal(old, box, pane));
  }, [selected, layout, pane.width, pane.height]);

  const zoomBy = (factor: number) =>
    setView((old) => zoom(old, factor, { x: pane.width / 2, y: pane.height / 2 }));
  const keys = (event: KeyboardEvent) => {
    const next = step(graph, selected, event.key);
    if (next === null) return;
    event.preventDefault();
    select(next);
    // The roving tab stop follows the selection.
    requestAnimationFrame(() => svg.current?.querySelector<SVGElement>('[tabindex="0"]')?.focus());
  };
  const chosen = props.devices.find((device) => device.id === props.device);

  return (
    <section class="pane pane-graph" aria-label="Graph">
      <div class="row pane-tools">
        <label class="colour-by">
          <span>Colours:</span>
          <select
            value={props.device ?? ""}
            disabled={props.devices.length === 0}
            onChange={(event) => props.choose(event.currentTarget.value)}
          >
            {props.devices.length === 0 && <option value="">no device yet</option>}
            {props.devices.map((device) => (
              <option key={device.id} value={device.id}>
                {device.name}
              </option>
            ))}
          </select>
        </label>
        <div class="zoom">
          <button type="button" aria-label="Zoom out" onClick={() => zoomBy(1 / 1.4)}>
            −
          </button>
          <button type="button" aria-label="Zoom in" onClick={() => zoomBy(1.4)}>
            +
          </button>
          <button type="button" disabled={!ready} onClick={() => layout && setView(() => fit(layout, pane))}>
            Fit
          </button>
        </div>
      </div>
      <div class="picture">
        {state === null && <Loading what="the picture of the graph" />}
        {state !== null && "error" in state && (
          <p class="hint">The graph could not be drawn: {state.error}</p>
        )}
        <svg ref={svg} class={view.scale < NAMES_FROM ? "tiny" : ""} onKeyDown={keys}>
          <title>
            Graph of operator calls{chosen ? `, coloured by ${chosen.name}` : ""}. Arrow keys move.
          </title>
          <Patterns />
          {ready && layout !== null && (
            <g transform={`translate(${view.x} ${view.y}) scale(${view.scale})`}>
              <GraphNodes
                layout={layout}
                states={states}
                marks={props.marks}
                view={props.view}
                selected={selected}
                select={(node) => !dragged.current && select(node)}
              />
            </g>
          )}
        </svg>
        {ready && layout !== null && (
          <Overview layout={layout} states={states} view={view} pane={pane} setView={setView} />
        )}
      </div>
      <Legend states={states} marks={props.marks} view={props.view} />
    </section>
  );
}

function Patterns() {
  return (
    <defs>
      <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
        <rect width="6" height="6" class="hatch-back" />
        <rect width="2.5" height="6" class="hatch-line" />
      </pattern>
    </defs>
  );
}
