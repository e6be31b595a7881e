/** A scrolled list that is longer than browsers let a box be: which of its lines are seen. */

/** Pixels that a box may be long in every browser. */
const LONGEST = 6_000_000;

export interface Scrolled {
  /** How many lines there are, each of so many pixels. */
  count: number;
  size: number;
  /** Pixels of the box that shows them. */
  view: number;
}

export function shownLines({ count, size, view }: Scrolled): number {
  return Math.max(1, Math.min(count, Math.floor(view / size)));
}

/** How long the scrolled box is. */
export function contentPixels({ count, size, view }: Scrolled): number {
  return Math.max(view, Math.min(LONGEST, count * size));
}

/** The first line that is seen when the box is scrolled so far. */
export function firstLine(all: Scrolled, scrolled: number): number {
  const [way, last] = ways(all);
  return way <= 0 ? 0 : Math.max(0, Math.min(last, Math.round((scrolled / way) * last)));
}

/** How far to scroll for a line to be seen, no further than needed from where it is scrolled now. */
export function scrollTo(all: Scrolled, scrolled: number, line: number): number {
  const [way, last] = ways(all);
  const first = firstLine(all, scrolled);
  const shown = shownLines(all);
  if (last <= 0 || (line >= first && line < first + shown)) return scrolled;
  const wanted = line < first ? line : line - shown + 1;
  return (Math.min(last, wanted) / last) * way;
}

/** The pixels that can be scrolled, and the last line that can be the first. */
function ways(all: Scrolled): [number, number] {
  return [contentPixels(all) - all.view, all.count - shownLines(all)];
}
