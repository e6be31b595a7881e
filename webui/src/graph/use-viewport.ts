/** Pointer and wheel to pan and zoom: drag with one pointer, pinch with two, wheel to zoom. */

import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Size, type Viewport, zoom } from "./viewport";

/** Less than this is a click that trembled. */
const DRAG = 4;

export interface ViewportControl {
  view: Viewport;
  pane: Size;
  setView: (change: (view: Viewport) => Viewport) => void;
  /** True from the first real movement on: the click that follows selects nothing. */
  dragged: RefObject<boolean>;
  /** Was the last movement of somebody's hand? Whoever else sets the view says so here. */
  byHand: RefObject<boolean>;
}

export function useViewport(element: RefObject<SVGSVGElement | null>): ViewportControl {
  const [view, setView] = useState<Viewport>({ x: 0, y: 0, scale: 1 });
  const [pane, setPane] = useState<Size>({ width: 0, height: 0 });
  const dragged = useRef(false);
  const byHand = useRef(false);

  useEffect(() => {
    const svg = element.current;
    if (svg === null) return;
    const pointers = new Map<number, { x: number; y: number }>();
    const at = (event: MouseEvent) => {
      const box = svg.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    const wheel = (event: WheelEvent) => {
      event.preventDefault();
      const pixels = event.deltaMode === 1 ? event.deltaY * 20 : event.deltaY;
      byHand.current = true;
      setView((old) => zoom(old, Math.exp(-pixels * 0.0018), at(event)));
    };
    const down = (event: PointerEvent) => {
      if (event.button !== 0) return;
      pointers.set(event.pointerId, at(event));
      if (pointers.size === 1) dragged.current = false;
    };
    const move = (event: PointerEvent) => {
      const before = pointers.get(event.pointerId);
      if (before === undefined) return;
      const now = at(event);
      const [dx, dy] = [now.x - before.x, now.y - before.y];
      if (!dragged.current && Math.hypot(dx, dy) < DRAG) return;
      if (!dragged.current) svg.setPointerCapture(event.pointerId);
      dragged.current = true;
      byHand.current = true;
      const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
      pointers.set(event.pointerId, now);
      if (other === undefined) {
        setView((old) => ({ ...old, x: old.x + dx, y: old.y + dy }));
        return;
      }
      const spread =
        Math.hypot(now.x - other.x, now.y - other.y) / Math.hypot(before.x - other.x, before.y - other.y);
      const middle = { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 };
      setView((old) => zoom({ ...old, x: old.x + dx / 2, y: old.y + dy / 2 }, spread || 1, middle));
    };
    const up = (event: PointerEvent) => pointers.delete(event.pointerId);
    const observer = new ResizeObserver(([entry]) => {
      if (entry !== undefined) setPane({ width: entry.contentRect.width, height: entry.contentRect.height });
    });
    observer.observe(svg);
    const listening = new AbortController();
    const { signal } = listening;
    // Not passive: the page must not scroll along.
    svg.addEventListener("wheel", wheel, { passive: false, signal });
    svg.addEventListener("pointerdown", down, { signal });
    svg.addEventListener("pointermove", move, { signal });
    svg.addEventListener("pointerup", up, { signal });
    svg.addEventListener("pointercancel", up, { signal });
    return () => {
      observer.disconnect();
      listening.abort();
    };
  }, [element]);
  return { view, pane, setView, dragged, byHand };
}
