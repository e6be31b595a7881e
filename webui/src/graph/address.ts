/** The picture as an address has it: where one looks, and which blocks are open. */

import { everything, type Foldable, openAtFirst } from "./outline";
import { LEAST, MOST, type Size, type Viewport } from "./viewport";

/** All of the graph, whatever the size of the pane. */
export const FITTED = "fit";

/** What is in the middle of the pane, and the scale: it means the same in another window. */
export function placeText(view: Viewport, pane: Size): string {
  const middle = [(pane.width / 2 - view.x) / view.scale, (pane.height / 2 - view.y) / view.scale];
  return [...middle.map((value) => Math.round(value)), Number(view.scale.toPrecision(3))].join(",");
}

/** Null for what is no such place. */
export function placeFrom(text: string, pane: Size): Viewport | null {
  const numbers = text.split(",").map(Number);
  const [x, y, scale] = numbers;
  if (numbers.length !== 3 || x === undefined || y === undefined || scale === undefined) return null;
  if (!numbers.every(Number.isFinite) || scale < LEAST || scale > MOST) return null;
  return { scale, x: pane.width / 2 - x * scale, y: pane.height / 2 - y * scale };
}

/** Null where they are open as the page opens them. */
export function openText(open: ReadonlySet<string>, found: Foldable): string | null {
  if (same(open, openAtFirst(found))) return null;
  const all = everything(found.groups);
  if (all.every((id) => open.has(id))) return "all";
  // In the order of the graph: what was opened first leaves no trace.
  return all.filter((id) => open.has(id)).join(",") || "none";
}

/** Blocks that the graph does not have are left out. */
export function openFrom(text: string | null, found: Foldable): ReadonlySet<string> {
  if (text === null) return openAtFirst(found);
  const all = everything(found.groups);
  if (text === "all") return new Set(all);
  const named = new Set(text.split(","));
  return new Set(all.filter((id) => named.has(id)));
}

function same(one: ReadonlySet<string>, other: ReadonlySet<string>): boolean {
  return one.size === other.size && [...one].every((id) => other.has(id));
}
