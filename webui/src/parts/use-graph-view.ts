/** Where one looks at the graph: by hand, by the address, and as the selected node asks for. */

import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { FITTED, placeFrom, placeText } from "../graph/address";
import type { Box, Layout } from "../graph/layout";
import { useViewport, type ViewportControl } from "../graph/use-viewport";
import { fit, opening, reveal, type Viewport } from "../graph/viewport";
import { useQuery } from "../state/router";

/** The address follows a hand when it has come to rest: browsers allow so many changes in half a minute. */
const REST_MS = 400;

interface GraphView extends Omit<ViewportControl, "byHand" | "setView"> {
  /** As by hand. */
  move: (change: (view: Viewport) => Viewport) => void;
  /** Bring a box into view. */
  show: (box: Box) => void;
  fitAll: () => void;
  /** The next layout is looked at as a page that has just opened does. */
  reopen: () => void;
}

export function useGraphView(
  svg: RefObject<SVGSVGElement | null>,
  layout: Layout | null,
  selected: string | null,
): GraphView {
  const { view, pane, setView, dragged, byHand } = useViewport(svg);
  const [place, setPlace] = useQuery("at", "looking");
  const kept = useRef<string | null>(null);
  const fitted = useRef<Viewport | null>(null);
  /** The selection that came with a place in the address: it is not looked for. */
  const placed = useRef<string | null>(null);
  const box = layout?.boxes.find((candidate) => candidate.id === selected);
  const there = pane.width > 0;

  const own = (change: (view: Viewport) => Viewport) => {
    byHand.current = false;
    setView(change);
  };
  const fitNow = (all: Layout) => {
    fitted.current = fit(all, pane);
    return fitted.current;
  };
  const go = (all: Layout, text: string): boolean => {
    const next = text === FITTED ? fitNow(all) : placeFrom(text, pane);
    if (next === null) return false;
    placed.current = selected;
    byHand.current = true;
    setView(() => next);
    return true;
  };

  // Once the size is known, not at each resize, nor when one block is folded.
  const opened = useRef(false);
  useEffect(() => {
    if (layout === null || !there || opened.current) return;
    opened.current = true;
    kept.current = place;
    if (place !== null && go(layout, place)) return;
    const top = layout.boxes.find((candidate) => candidate.kind !== "input");
    own(() => opening(layout, pane, top ? top.x + top.width / 2 : layout.width / 2));
  }, [layout, there]);

  // Back and forth in the history. What the address says because of a hand is there already.
  useEffect(() => {
    if (layout === null || !there || place === kept.current) return;
    kept.current = place;
    if (place !== null) go(layout, place);
  }, [place]);

  // When the selection changes, not when panning.
  useEffect(() => {
    const arrived = placed.current !== null && placed.current === selected;
    placed.current = null;
    if (layout && box && there && !arrived) own((old) => reveal(old, box, pane, layout));
  }, [selected, layout]);

  // What was fitted stays fitted in another room, what was found by hand stays where it is.
  useEffect(() => {
    if (layout === null || !there) return;
    const now = fitted.current;
    if (view === now) setView(() => fitNow(layout));
    else if (box !== undefined && !byHand.current) setView((old) => reveal(old, box, pane, layout));
  }, [pane.width, pane.height]);

  useEffect(() => {
    if (!opened.current) return;
    const text = view === fitted.current ? FITTED : byHand.current ? placeText(view, pane) : null;
    const rest = setTimeout(() => {
      kept.current = text;
      setPlace(text);
    }, REST_MS);
    // Whoever goes back within that time has left the entry that it would have been written into: the one that is shown
    // then keeps what it says.
    const left = () => clearTimeout(rest);
    addEventListener("popstate", left);
    return () => {
      left();
      removeEventListener("popstate", left);
    };
  }, [view]);

  return {
    view,
    pane,
    dragged,
    move: (change) => {
      byHand.current = true;
      setView(change);
    },
    show: (one) => layout && own((old) => reveal(old, one, pane, layout)),
    fitAll: () => layout && setView(() => fitNow(layout)),
    reopen: () => {
      opened.current = false;
      kept.current = null;
      setPlace(null);
    },
  };
}
