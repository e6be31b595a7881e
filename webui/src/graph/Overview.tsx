/** The whole graph as a strip beside the picture: where the trouble is, and where one looks now. */

import { Component } from "preact";
import { useRef } from "preact/hooks";
import type { State } from "../model/verdicts";
import { stateOf } from "./box-states";
import { outlineOf } from "./culling";
import type { Box, Layout } from "./layout";
import type { NodeStates } from "./types";
import type { Size, Viewport } from "./viewport";

const WIDTH = 44;

export function Overview(props: {
  layout: Layout;
  states: NodeStates;
  view: Viewport;
  pane: Size;
  setView: (change: (view: Viewport) => Viewport) => void;
}) {
  const { layout, states, view, pane, setView } = props;
  const holding = useRef(false);
  const visible = pane.height / view.scale;
  // Nothing to overview when all of it can be seen.
  if (layout.height <= visible * 1.05) return null;
  const down = pane.height / layout.height;
  const across = WIDTH / layout.width;
  const go = (event: PointerEvent) => {
    const strip = event.currentTarget;
    if (!(strip instanceof Element)) return;
    const y = (event.clientY - strip.getBoundingClientRect().top) / down;
    setView((old) => ({ ...old, y: pane.height / 2 - y * old.scale }));
  };
  return (
    <svg
      class="overview"
      width={WIDTH}
      height={pane.height}
      aria-hidden="true"
      onPointerDown={(event) => {
        holding.current = true;
        event.currentTarget.setPointerCapture(event.pointerId);
        go(event);
      }}
      onPointerMove={(event) => holding.current && go(event)}
      onPointerUp={() => {
        holding.current = false;
      }}
    >
      <Marks layout={layout} states={states} across={across} down={down} />
      <rect
        class="window"
        x={0.5}
        y={(-view.y / view.scale) * down}
        width={WIDTH - 1}
        height={visible * down}
      />
    </svg>
  );
}

interface MarksProps {
  layout: Layout;
  states: NodeStates;
  across: number;
  down: number;
}

/** Apart, so that a pan moves the window only. */
class Marks extends Component<MarksProps> {
  override shouldComponentUpdate(next: MarksProps): boolean {
    return (
      next.layout !== this.props.layout || next.states !== this.props.states || next.down !== this.props.down
    );
  }

  override render() {
    const { layout, states, across, down } = this.props;
    const byState = new Map<State, Box[]>();
    for (const box of layout.boxes) {
      if (box.kind === "input" || box.kind === "output" || box.kind === "view") continue;
      const small = {
        ...box,
        x: box.x * across,
        y: box.y * down,
        width: Math.max(3, box.width * across),
        height: Math.max(1.5, box.height * down),
      };
      const state = stateOf(box, states);
      byState.set(state, [...(byState.get(state) ?? []), small]);
    }
    return [...byState].map(([state, boxes]) => (
      <path key={state} class={`is-${state}`} d={outlineOf(boxes, 1)} />
    ));
  }
}
