import { Component } from "preact";
import type { Mark, Marks } from "../model/locate";
import { GLYPH, isProblem, type State, WORD } from "../model/verdicts";
import type { Box, Layout } from "./layout";
import type { NodeStates, View } from "./types";

interface GraphNodesProps {
  layout: Layout;
  states: NodeStates;
  marks: Marks;
  view: View;
  selected: string | null;
  select: (node: string) => void;
}

/** `select` is a new function each time and is left out. */
function changed<T extends { select: unknown }>(before: T, next: T): boolean {
  return (Object.keys(next) as (keyof T)[]).some((key) => key !== "select" && next[key] !== before[key]);
}

/** Not drawn again for a mere pan. */
export class GraphNodes extends Component<GraphNodesProps> {
  override shouldComponentUpdate(next: GraphNodesProps): boolean {
    return changed(this.props, next);
  }

  override render() {
    const { layout, states, marks, view, selected } = this.props;
    const stop = selected ?? layout.boxes.find((box) => box.kind === "kernel")?.id ?? null;
    const touches = (edge: { from: string; to: string }) =>
      selected !== null && (edge.from === selected || edge.to === selected);
    return (
      <>
        <Edges layout={layout} />
        <g class="edges near-selected">
          {layout.edges.filter(touches).map((edge) => (
            <path key={`${edge.from} ${edge.to}`} d={edge.path} class={edge.far ? "far" : ""} />
          ))}
        </g>
        {layout.boxes.map((box) => (
          <NodeBox
            key={box.id}
            box={box}
            state={states.get(box.id) ?? "none"}
            mark={marks.get(box.id)}
            view={view}
            selected={box.id === selected}
            stop={box.id === stop}
            select={(node) => this.props.select(node)}
          />
        ))}
      </>
    );
  }
}

class Edges extends Component<{ layout: Layout }> {
  override shouldComponentUpdate(next: { layout: Layout }): boolean {
    return next.layout !== this.props.layout;
  }

  override render() {
    // One path for all of them: a thousand elements less.
    const path = this.props.layout.edges.filter((edge) => !edge.far).map((edge) => edge.path);
    return (
      <g class="edges">
        <path d={path.join("")} />
      </g>
    );
  }
}

interface NodeBoxProps {
  box: Box;
  state: State;
  mark: Mark | undefined;
  view: View;
  selected: boolean;
  stop: boolean;
  select: (node: string) => void;
}

class NodeBox extends Component<NodeBoxProps> {
  override shouldComponentUpdate(next: NodeBoxProps): boolean {
    return changed(this.props, next);
  }

  override render() {
    const { box, state, mark, view, selected, stop } = this.props;
    const { x, y, width, height, kind, label } = box;
    if (kind === "input" || kind === "output") {
      return (
        <g class={`box box-${kind}`} transform={`translate(${x} ${y})`}>
          <rect width={width} height={height} rx={height / 2} />
          <text x={width / 2} y={height / 2} text-anchor="middle">
            {label}
          </text>
        </g>
      );
    }
    const shown = kind === "kernel";
    const said = shown
      ? `, ${stateWord(state, view)}${mark ? `, ${mark.word}` : ""}`
      : ", a view: no kernel runs";
    return (
      // biome-ignore lint/a11y/useSemanticElements: SVG has no button element
      <g
        class={`box box-${kind} is-${state}${selected ? " selected" : ""}`}
        transform={`translate(${x} ${y})`}
        role="button"
        tabindex={stop ? 0 : -1}
        aria-label={`${box.id} ${label}${said}`}
        aria-pressed={selected}
        onClick={() => this.props.select(box.id)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          this.props.select(box.id);
        }}
      >
        <rect width={width} height={height} rx={shown ? 5 : height / 2} />
        {shown && (
          <text class="box-glyph" x={13} y={height / 2} text-anchor="middle">
            {GLYPH[state]}
          </text>
        )}
        <text x={shown ? 25 : width / 2} y={height / 2} text-anchor={shown ? "start" : "middle"}>
          {label}
        </text>
        {mark !== undefined && (
          <g class="mark-sign" transform={`translate(${width} 0)`}>
            <circle r={9} />
            <text y={0.5} text-anchor="middle">
              {mark.label}
            </text>
          </g>
        )}
      </g>
    );
  }
}

export function stateWord(state: State, view: View): string {
  if (view !== "offload") return WORD[state];
  if (state === "pass") return "on the device";
  if (isProblem(state) || state === "unsupported") return "stayed on the reference";
  return state === "waiting" || state === "running" ? "waiting" : "not moved";
}
