/** The picture of the graph: every node in its place, coloured by what happened to it. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { NodeWords } from "../graph/box-states";
import { boxAt, visible, windowOf } from "../graph/culling";
import { GraphNodes } from "../graph/GraphNodes";
import { Legend } from "../graph/Legend";
import { Overview } from "../graph/Overview";
import { matching } from "../graph/outline";
import { step } from "../graph/steps";
import type { NodeStates, View } from "../graph/types";
import { useLayout } from "../graph/use-layout";
import { useOutline } from "../graph/use-outline";
import { zoom } from "../graph/viewport";
import type { Marks } from "../model/locate";
import { useQuery } from "../state/router";
import { Loading } from "./Basics";
import { GraphTools } from "./GraphTools";
import type { Shared } from "./shared";
import { useGraphView } from "./use-graph-view";

interface GraphPaneProps extends Shared {
  states: NodeStates;
  /** Drawn at the corners of some nodes. */
  marks: Marks;
  /** What is said of nodes in place of their states. */
  words: NodeWords;
  view: View;
  /** Whether the saved results are there. */
  loaded: boolean;
}

/** Below this scale names cannot be read: only coloured boxes are drawn. */
const NAMES_FROM = 0.33;
/** From here on there is room for what runs along the links. */
const TYPES_FROM = 0.8;

export function GraphPane(props: GraphPaneProps) {
  const { states, select } = props;
  const { graph } = props.suite;
  const selected = props.node?.id ?? null;
  const svg = useRef<SVGSVGElement>(null);
  const [openBlocks, setOpenBlocks] = useQuery("open", "looking");
  const folding = useOutline(graph, selected, openBlocks, setOpenBlocks);
  const state = useLayout(folding.outline);
  const layout = state !== null && "layout" in state ? state.layout : null;
  const { view, pane, move, show, fitAll, reopen, dragged } = useGraphView(svg, layout, selected);
  const ready = layout !== null && pane.width > 0;
  const [cursor, setCursor] = useState<string | null>(null);
  const [given, setText] = useQuery("find", "typed");
  const text = given ?? "";
  const found = useMemo(() => matching(folding.found, text), [folding.found, text]);
  const wanted = useMemo(() => (text.trim() === "" ? null : new Set(found)), [found]);

  // What was folded or opened stays where it was.
  const held = useRef<{ id: string; x: number; y: number } | null>(null);
  const placeOf = (id: string) =>
    [...(layout?.frames ?? []), ...(layout?.boxes ?? [])].find(
      (part) => part.id === id || part.id === `${id}/0`,
    );
  useEffect(() => {
    const before = held.current;
    held.current = null;
    const now = before && placeOf(before.id);
    if (now) move((old) => ({ ...old, x: before.x - now.x * old.scale, y: before.y - now.y * old.scale }));
  }, [layout]);
  const toggle = (id: string) => {
    const place = placeOf(id);
    if (place) held.current = { id, x: place.x * view.scale + view.x, y: place.y * view.scale + view.y };
    folding.toggle(id);
  };

  const press = (id: string) => {
    const box = layout?.boxes.find((candidate) => candidate.id === id);
    setCursor(id);
    if (box?.kind === "kernel" || box?.kind === "view") select(id);
    else if (box?.kind === "group" || box?.kind === "block") toggle(id);
  };
  const focus = () =>
    // The roving tab stop follows.
    requestAnimationFrame(() => svg.current?.querySelector<SVGElement>('.box[tabindex="0"]')?.focus());
  const keys = (event: KeyboardEvent) => {
    if (layout === null) return;
    const { box, frame } = pressed(event);
    if ((event.key === "Enter" || event.key === " ") && (box ?? frame) !== undefined) {
      event.preventDefault();
      if (frame !== undefined) toggle(frame);
      else if (box !== undefined) press(box);
      return;
    }
    const next = step(layout, cursor ?? selected, event.key);
    if (next === null) return;
    event.preventDefault();
    const place = layout.boxes.find((candidate) => candidate.id === next);
    setCursor(next);
    if (place?.kind === "kernel" || place?.kind === "view") select(next);
    else if (place !== undefined) show(place);
    focus();
  };
  const click = (event: MouseEvent) => {
    if (dragged.current || layout === null || svg.current === null) return;
    const { box, frame } = pressed(event);
    if (frame !== undefined) return toggle(frame);
    if (box !== undefined) return press(box);
    const { left, top } = svg.current.getBoundingClientRect();
    const at = { x: event.clientX - left - view.x, y: event.clientY - top - view.y };
    const hit = boxAt(layout, at.x / view.scale, at.y / view.scale);
    if (hit !== null) press(hit.id);
  };
  const goNext = (by: 1 | -1) => {
    const at = found.indexOf(selected ?? "");
    const next = found[at < 0 ? (by > 0 ? 0 : found.length - 1) : (at + by + found.length) % found.length];
    if (next !== undefined) select(next);
  };

  // One object for as long as the pane stays within it, for all below to be drawn once.
  const edges = layout === null ? null : windowOf(layout, view, pane);
  const shown = useMemo(
    () => (layout === null ? null : visible(layout, edges)),
    [layout, edges?.left, edges?.top, edges?.right, edges?.bottom],
  );
  const tiny = view.scale < NAMES_FROM;
  const stops = useMemo(
    () => shown?.boxes.filter((box) => box.kind !== "input" && box.kind !== "output") ?? [],
    [shown],
  );
  const stop = (stops.find((box) => box.id === (cursor ?? selected)) ?? stops[0])?.id ?? null;
  const chosen = props.devices.find((device) => device.id === props.device);

  return (
    <section class="pane pane-graph" id="graph" tabIndex={-1} aria-label="Graph">
      <GraphTools
        {...props}
        ready={ready}
        text={text}
        setText={(next) => setText(next || null)}
        found={found}
        goNext={goNext}
        folding={folding}
        foldAll={() => {
          reopen();
          if (folding.open.size > 0) folding.foldAll();
          else folding.openAll();
        }}
        zoomBy={(factor) => move((old) => zoom(old, factor, { x: pane.width / 2, y: pane.height / 2 }))}
        fit={fitAll}
      />
      <div class="picture">
        {state === null && <Loading what="the picture of the graph" />}
        {state !== null && "error" in state && (
          <p class="hint">The graph could not be drawn: {state.error}</p>
        )}
        <svg ref={svg} class={tiny ? "tiny" : ""} onKeyDown={keys} onClick={click}>
          <title>
            Graph of operator calls{chosen ? `, coloured by ${chosen.name}` : ""}. Arrow keys move.
          </title>
          <Patterns />
          {ready && shown !== null && (
            <g transform={`translate(${view.x} ${view.y}) scale(${view.scale})`}>
              <GraphNodes
                layout={layout}
                visible={shown}
                states={states}
                marks={props.marks}
                words={props.words}
                view={props.view}
                selected={selected}
                stop={stop}
                wanted={wanted}
                tiny={tiny}
                types={view.scale >= TYPES_FROM}
              />
            </g>
          )}
        </svg>
        {ready && layout !== null && (
          <Overview layout={layout} states={states} view={view} pane={pane} setView={move} />
        )}
      </div>
      {props.loaded && <Legend states={states} marks={props.marks} view={props.view} words={props.words} />}
    </section>
  );
}

/** What an event is about: a box, or the title of a frame. */
function pressed(event: Event): { box?: string | undefined; frame?: string | undefined } {
  const part = event.target instanceof Element ? event.target.closest("[data-box], [data-frame]") : null;
  return part instanceof SVGElement ? { box: part.dataset.box, frame: part.dataset.frame } : {};
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
