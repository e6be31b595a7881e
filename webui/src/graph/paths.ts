/** Lines of links: points, and the SVG path through them. */

export interface Point {
  x: number;
  y: number;
}

interface Rectangle extends Point {
  width: number;
  height: number;
}

const pair = ({ x, y }: Point) => `${Math.round(x)} ${Math.round(y)}`;

/** A curve: each bend is the control point between two middles. A far one is one curve with two control points. */
export function pathOf(points: readonly Point[], far: boolean): string {
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined || points.length < 2) return "";
  const bends = points.slice(1, -1);
  if (far) return `M${pair(first)}C${[...bends, last].map(pair).join(" ")}`;
  let path = `M${pair(first)}`;
  for (const [at, bend] of bends.entries()) {
    const next = bends[at + 1];
    const end = next === undefined ? last : { x: (bend.x + next.x) / 2, y: (bend.y + next.y) / 2 };
    path += `Q${pair(bend)} ${pair(end)}`;
  }
  return bends.length > 0 ? path : `${path}L${pair(last)}`;
}

/** From the bottom of one box to the top of another. */
export function descend(from: Rectangle, to: Rectangle): Point[] {
  const [x1, y1] = [from.x + from.width / 2, from.y + from.height];
  const [x2, y2] = [to.x + to.width / 2, to.y];
  const bend = Math.min(60, Math.max(12, (y2 - y1) / 3));
  return [
    { x: x1, y: y1 },
    { x: x1, y: y1 + bend },
    { x: x2, y: y2 - bend },
    { x: x2, y: y2 },
  ];
}

/** A far link: out to the right and back. */
export function arc(from: Rectangle, to: Rectangle): Point[] {
  const [x1, y1] = [from.x + from.width, from.y + from.height / 2];
  const [x2, y2] = [to.x + to.width, to.y + to.height / 2];
  const out = Math.max(x1, x2) + 60;
  return [
    { x: x1, y: y1 },
    { x: out, y: y1 },
    { x: out, y: y2 },
    { x: x2, y: y2 },
  ];
}
