import { Component } from "preact";
import type { Mark, Marks } from "../model/locate";
import { GLYPH } from "../model/verdicts";
import { boxWords, type NodeWords, stateOf } from "./box-states";
import { outlineOf, type Visible } from "./culling";
import type { Box, Edge, Frame, Layout } from "./layout";
import type { NodeStates, View } from "./types";

interface GraphNodesProps {
  layout: Layout;
  visible: Visible;
  states: NodeStates;
  marks: Marks;
  words: NodeWords;
  view: View;
  selected: string | null;
  /** The one box that is a tab stop. */
  stop: string | null;
  /** Nodes that are searched for; null where nothing is. */
  wanted: ReadonlySet<string> | null;
  /** Too small for words: colours only. */
  tiny: boolean;
  /** Are there letters' heights between the boxes for what runs along the links? */
  types: boolean;
}

/** What is pressed says by `data-box` or `data-frame` what it is: the picture listens, not each box. */
export class GraphNodes extends Component<GraphNodesProps> {
  /** Not drawn again for a mere pan. */
  override shouldComponentUpdate(next: GraphNodesProps): boolean {
    return changed(this.props, next);
  }

  override render() {
    const { layout, visible, states, marks, words, view, selected, stop, wanted, tiny, types } = this.props;
    const touches = (edge: Edge) => selected !== null && (edge.from === selected || edge.to === selected);
    const near = layout.edges.filter(touches);
    // Drawn one by one there would be too many of them where they are so small.
    const merged = tiny && visible.boxes.length > MERGED_FROM;
    const shown = merged ? visible.boxes.filter((box) => box.id === selected) : visible.boxes;
    return (
      <>
        {visible.frames.map((frame) => (
          <FrameBox key={frame.id} frame={frame} tiny={tiny} />
        ))}
        <Edges edges={visible.edges} />
        <g class="edges near-selected">
          {near.map((edge) => (
            <path key={`${edge.from} ${edge.to}`} d={edge.path} class={edge.far ? "far" : ""} />
          ))}
        </g>
        {merged && <Merged boxes={visible.boxes} states={states} wanted={wanted} />}
        {shown.map((box) => (
          <NodeBox
            key={box.id}
            box={box}
            states={states}
            mark={markOf(box, marks)}
            said={boxWords(box, states, view, words)}
            selected={box.id === selected}
            stop={box.id === stop}
            dimmed={wanted !== null && !box.nodes.some((node) => wanted.has(node))}
          />
        ))}
        {!tiny && <Types edges={types ? visible.edges.filter((edge) => !edge.far) : near} />}
      </>
    );
  }
}

const MERGED_FROM = 150;

function changed<T extends object>(before: T, next: T): boolean {
  return (Object.keys(next) as (keyof T)[]).some((key) => next[key] !== before[key]);
}

/** One path for all of them: a thousand elements less. */
class Edges extends Component<{ edges: readonly Edge[] }> {
  override shouldComponentUpdate(next: { edges: readonly Edge[] }): boolean {
    return next.edges !== this.props.edges;
  }

  override render() {
    const near = this.props.edges.filter((edge) => !edge.far);
    return (
      <g class="edges">
        <path d={near.map((edge) => edge.path).join("")} />
      </g>
    );
  }
}

/** Dtype and shape of what runs along the links, once for each value. */
function Types({ edges }: { edges: readonly Edge[] }) {
  const typed = edges.filter((edge) => edge.type !== "");
  const once = new Map(typed.map((edge) => [`${edge.from} ${edge.type}`, edge]));
  return (
    <g class="types">
      {[...once].map(([key, edge]) => (
        <text key={key} x={edge.x + 4} y={edge.y}>
          {edge.type}
        </text>
      ))}
    </g>
  );
}

function FrameBox({ frame, tiny }: { frame: Frame; tiny: boolean }) {
  return (
    <g class="frame" transform={`translate(${frame.x} ${frame.y})`}>
      <rect width={frame.width} height={frame.height} rx={8} />
      {!tiny && (
        // biome-ignore lint/a11y/useSemanticElements: SVG has no button element
        <g
          role="button"
          tabindex={0}
          data-frame={frame.id}
          aria-expanded={true}
          aria-label={`Fold ${frame.title}`}
        >
          <rect
            class="frame-title"
            x={4}
            y={3}
            width={Math.min(frame.width - 8, 32 + frame.title.length * 7.4)}
            height={19}
            rx={5}
          />
          <text x={11} y={13}>
            ▾ {frame.title}
          </text>
        </g>
      )}
    </g>
  );
}

/** Boxes of one state as one path. */
class Merged extends Component<{ boxes: Box[]; states: NodeStates; wanted: ReadonlySet<string> | null }> {
  override shouldComponentUpdate(next: {
    boxes: Box[];
    states: NodeStates;
    wanted: ReadonlySet<string> | null;
  }) {
    return changed(this.props, next);
  }

  override render() {
    const { boxes, states, wanted } = this.props;
    const groups = new Map<string, Box[]>();
    for (const box of boxes) {
      const dim = wanted !== null && !box.nodes.some((node) => wanted.has(node)) ? " dimmed" : "";
      const key = `box box-${box.kind} is-${stateOf(box, states)}${dim}`;
      groups.set(key, [...(groups.get(key) ?? []), box]);
    }
    return [...groups].map(([key, members]) => (
      <g key={key} class={key}>
        <path d={outlineOf(members)} />
      </g>
    ));
  }
}

interface NodeBoxProps {
  box: Box;
  states: NodeStates;
  mark: Mark | undefined;
  /** What it came to, in words. */
  said: string;
  selected: boolean;
  stop: boolean;
  dimmed: boolean;
}

class NodeBox extends Component<NodeBoxProps> {
  override shouldComponentUpdate(next: NodeBoxProps): boolean {
    return changed(this.props, next);
  }

  override render() {
    const { box, states, mark, selected, stop, dimmed } = this.props;
    const { x, y, width, height, kind, title, note, name } = box;
    const place = `translate(${x} ${y})`;
    const faint = dimmed ? " dimmed" : "";
    const ends = kind === "input" || kind === "output";
    if (ends) {
      return (
        <g class={`box box-${kind}${faint}`} transform={place}>
          <rect width={width} height={height} rx={9} />
          <text x={width / 2} y={note === "" ? height / 2 : 11} text-anchor="middle">
            {title}
          </text>
          {note !== "" && (
            <text class="box-note" x={width / 2} y={23} text-anchor="middle">
              {note}
            </text>
          )}
        </g>
      );
    }
    const state = stateOf(box, states);
    const folded = kind === "group" || kind === "block";
    const shown = kind !== "view";
    // It begins with what is seen, for those who speak to their machine.
    const seen = `${title} ${shown ? note : ""}`.trim();
    const said = shown ? `${this.props.said}${mark ? `, ${mark.word}` : ""}` : "a view: no kernel runs";
    return (
      <>
        {/* biome-ignore lint/a11y/useSemanticElements: SVG has no button element */}
        <g
          class={`box box-${kind}${folded ? " box-folded" : ""} is-${state}${selected ? " selected" : ""}${faint}`}
          transform={place}
          role="button"
          tabindex={stop ? 0 : -1}
          data-box={box.id}
          aria-label={`${seen}, ${name}, ${said}`}
          aria-pressed={folded ? undefined : selected}
          aria-expanded={folded ? false : undefined}
        >
          {folded && <rect class="behind" x={5} y={5} width={width} height={height} rx={5} />}
          <rect width={width} height={height} rx={shown ? 5 : height / 2} />
          {shown && (
            <text class="box-glyph" x={14} y={height / 2} text-anchor="middle">
              {GLYPH[state]}
            </text>
          )}{" "}
          <text
            x={shown ? 27 : width / 2}
            y={shown && note !== "" ? 13 : height / 2}
            text-anchor={shown ? "start" : "middle"}
          >
            {folded ? "▸ " : ""}
            {title}
          </text>{" "}
          {shown && note !== "" && (
            <text class="box-note" x={27} y={27}>
              {note}
            </text>
          )}
        </g>
        {mark !== undefined && (
          <g class={`mark-sign${faint}`} transform={`translate(${x + width} ${y})`} data-box={box.id}>
            <circle r={9} />
            {/* biome-ignore lint/a11y/noAriaHiddenOnFocusable: a text of SVG takes no focus */}
            <text y={0.5} text-anchor="middle" aria-hidden="true">
              {mark.label}
            </text>
          </g>
        )}
      </>
    );
  }
}

/** The first mark of what a box stands for: suspects come by their rank. */
function markOf(box: Box, marks: Marks): Mark | undefined {
  if (marks.size === 0) return undefined;
  if (box.nodes.length === 1) return marks.get(box.nodes[0] ?? "");
  const inside = new Set(box.nodes);
  return [...marks].find(([node]) => inside.has(node))?.[1];
}
