/** SVG paths of edges. Only pairs "x y" and command letters, so that a layout can move them. */

interface Point {
  x: number;
  y: number;
}

interface Rectangle extends Point {
  width: number;
  height: number;
}

const pair = (x: number, y: number) => `${Math.round(x)} ${Math.round(y)}`;

/** A curve through dagre's bend points: each bend is the control point between two middles. */
export function smooth(points: readonly Point[]): string {
  const first = points[0];
  const last = points.at(-1);
  if (first === undefined || last === undefined || points.length < 2) return "";
  let path = `M${pair(first.x, first.y)}`;
  const bends = points.slice(1, -1);
  for (const [at, bend] of bends.entries()) {
    const next = bends[at + 1];
    const end = next === undefined ? last : { x: (bend.x + next.x) / 2, y: (bend.y + next.y) / 2 };
    path += `Q${pair(bend.x, bend.y)} ${pair(end.x, end.y)}`;
  }
  return bends.length > 0 ? path : `${path}L${pair(last.x, last.y)}`;
}

/** From the bottom of one box to the top of another. */
export function descend(from: Rectangle | undefined, to: Rectangle | undefined): string {
  if (from === undefined || to === undefined) return "";
  const [x1, y1] = [from.x + from.width / 2, from.y + from.height];
  const [x2, y2] = [to.x + to.width / 2, to.y];
  const bend = Math.min(60, Math.max(12, (y2 - y1) / 2));
  return `M${pair(x1, y1)}C${pair(x1, y1 + bend)} ${pair(x2, y2 - bend)} ${pair(x2, y2)}`;
}

/** A far edge: out to the right and back. */
export function arc(from: Rectangle | undefined, to: Rectangle | undefined): string {
  if (from === undefined || to === undefined) return "";
  const [x1, y1] = [from.x + from.width, from.y + from.height / 2];
  const [x2, y2] = [to.x + to.width, to.y + to.height / 2];
  const out = Math.max(x1, x2) + 60;
  return `M${pair(x1, y1)}C${pair(out, y1)} ${pair(out, y2)} ${pair(x2, y2)}`;
}
