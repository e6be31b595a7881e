/** A border between two panes that is dragged, or moved by keys (WAI-ARIA's window splitter). */

import type { RefObject } from "preact";
import { FIRST, LEAST, MOST, resized, type Side, type Sizes, stepped } from "../model/panes";

export function Splitter(props: {
  name: string;
  side: Side;
  sizes: Sizes;
  setSizes: (change: (sizes: Sizes) => Sizes) => void;
  /** What holds the panes. */
  room: RefObject<HTMLElement | null>;
}) {
  const { side, sizes, setSizes, room } = props;
  const vertical = side !== "upper";
  /** What stands on the right grows to the left. */
  const right = side === "detail" || side === "beside";
  const put = (value: number) => setSizes((old) => resized(old, side, value));
  const drag = (event: PointerEvent) => {
    const handle = event.currentTarget;
    if (!(handle instanceof Element) || !handle.hasPointerCapture(event.pointerId) || !room.current) return;
    const { x, y, width, height } = room.current.getBoundingClientRect();
    const part = vertical
      ? (right ? x + width - event.clientX : event.clientX - x) / width
      : (event.clientY - y) / height;
    put(100 * part);
  };
  const keys = (event: KeyboardEvent) => {
    const now = sizes[side];
    const next = stepped(right ? 100 - now : now, event.key, vertical);
    if (next === null) return;
    event.preventDefault();
    put(right ? 100 - next : next);
  };
  return (
    // biome-ignore lint/a11y/useSemanticElements: a separator that has the focus is a widget; <hr> is none
    <div
      class={`splitter splitter-${side}`}
      role="separator"
      tabIndex={0}
      aria-label={props.name}
      aria-orientation={vertical ? "vertical" : "horizontal"}
      aria-valuenow={Math.round(sizes[side])}
      aria-valuemin={LEAST}
      aria-valuemax={MOST}
      title="Drag, or press the arrow keys; twice for the usual size"
      onPointerDown={(event) => {
        event.preventDefault();
        event.currentTarget.setPointerCapture(event.pointerId);
        event.currentTarget.focus();
      }}
      onPointerMove={drag}
      onKeyDown={keys}
      onDblClick={() => put(FIRST[side])}
    />
  );
}
