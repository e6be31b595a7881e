/** Of a long table only the rows near those that are seen are drawn; what is left out has its room. */

import type { RefObject } from "preact";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Rows come and go so many at a time. */
export const PIECE = 10;
/** Pixels of a row, until one was measured. */
const ROW = 34;

export interface RowWindow {
  /** The rows from `first` on, before `last`, are drawn. */
  first: number;
  last: number;
  /** Pixels of what is left out above and below them. */
  above: number;
  below: number;
}

/** Which pieces to draw for what is seen of a list, and the room of the others. `heights`: of those that were measured. */
export function windowOfPieces(
  count: number,
  heights: ReadonlyMap<number, number>,
  seen: { top: number; height: number },
): RowWindow {
  const pieces = Math.ceil(count / PIECE);
  const rowsOf = (piece: number) => Math.min(PIECE, count - piece * PIECE);
  let [pixels, rows] = [0, 0];
  for (const [piece, height] of heights) {
    if (piece >= pieces) continue;
    pixels += height;
    rows += rowsOf(piece);
  }
  const row = rows > 0 && pixels > 0 ? pixels / rows : ROW;
  // As much again above and below, for whoever scrolls.
  const [from, to] = [seen.top - seen.height, seen.top + 2 * seen.height];
  const found = { first: count, last: 0, above: 0, below: 0 };
  let top = 0;
  for (let piece = 0; piece < pieces; piece++) {
    const height = heights.get(piece) ?? rowsOf(piece) * row;
    // The end of the list is drawn wherever one is scrolled beyond it.
    const past = piece === pieces - 1 && found.last === 0;
    if (past || (top + height > from && top < to)) {
      found.first = Math.min(found.first, piece * PIECE);
      found.last = piece * PIECE + rowsOf(piece);
    } else if (found.last === 0) found.above += height;
    else found.below += height;
    top += height;
  }
  return { ...found, first: Math.min(found.first, found.last) };
}

/** `box`: what scrolls, or stands in a page that does; its parts with `data-row` are measured. */
export function useRowWindow(count: number, box: RefObject<HTMLElement | null>): RowWindow {
  const heights = useRef(new Map<number, number>());
  const [seen, setSeen] = useState({ top: 0, height: 1000 });
  const look = useCallback(() => {
    const found = box.current;
    if (found === null) return;
    const height = Math.min(found.clientHeight, innerHeight);
    const top = found.scrollTop + Math.max(0, -found.getBoundingClientRect().top);
    // In steps, each of a few rows: many at once are a stutter.
    const step = Math.max(200, height / 4);
    const at = { top: Math.floor(top / step) * step, height: Math.ceil(height / step) * step };
    setSeen((old) => (old.top === at.top && old.height === at.height ? old : at));
  }, [box]);
  useEffect(() => {
    const listening = new AbortController();
    const { signal } = listening;
    // Those of the box and of the page that it is in.
    document.addEventListener("scroll", look, { capture: true, passive: true, signal });
    addEventListener("resize", look, { signal });
    return () => listening.abort();
  }, [look]);
  useLayoutEffect(look, [count, look]);
  const found = windowOfPieces(count, heights.current, seen);
  useLayoutEffect(() => {
    const parts = new Map<number, number>();
    for (const part of box.current?.querySelectorAll<HTMLElement>("[data-row]") ?? []) {
      const piece = Math.floor(Number(part.dataset.row) / PIECE);
      parts.set(piece, (parts.get(piece) ?? 0) + part.offsetHeight);
    }
    for (const [piece, height] of parts) if (height > 0) heights.current.set(piece, height);
  }, [found.first, found.last, count]);
  return found;
}
