/** How much of the room each pane has: in hundredths, so that it means the same in a window of another size. */

/**
 * Of the width: the "list" beside the graph, or beside graph and details ("third"); the "detail" beside both, or beside
 * list over graph in a narrow window ("beside"). Of the height: the list over the graph there ("upper").
 */
export const FIRST = { list: 45, third: 34, detail: 38, beside: 54, upper: 50 };

export type Side = keyof typeof FIRST;
export type Sizes = Record<Side, number>;

/** No pane gets so small that it cannot be found again. */
export const LEAST = 15;
export const MOST = 85;

export function resized(sizes: Sizes, side: Side, value: number): Sizes {
  // What stands between two others keeps its own.
  const taken = side === "third" ? sizes.detail : side === "detail" ? sizes.third : 0;
  const most = Math.max(LEAST, Math.min(MOST, 100 - LEAST - taken));
  return { ...sizes, [side]: Math.round(10 * Math.min(Math.max(value, LEAST), most)) / 10 };
}

/** As they were written down before; what is no such thing is as at first. */
export function sizesFrom(text: string | null): Sizes {
  let found: unknown = null;
  try {
    found = JSON.parse(text ?? "null");
  } catch {
    // Only a convenience.
  }
  let sizes: Sizes = { ...FIRST };
  if (typeof found !== "object" || found === null) return sizes;
  for (const [side, value] of Object.entries(found)) {
    if (side in FIRST && typeof value === "number") sizes = resized(sizes, side as Side, value);
  }
  return sizes;
}

/** Where a key moves a border to; null for a key that moves none. As WAI-ARIA's window splitter has it. */
export function stepped(value: number, key: string, vertical: boolean): number | null {
  if (key === "Home") return LEAST;
  if (key === "End") return MOST;
  const less = vertical ? "ArrowLeft" : "ArrowUp";
  const more = vertical ? "ArrowRight" : "ArrowDown";
  return key === less ? value - 2 : key === more ? value + 2 : null;
}
