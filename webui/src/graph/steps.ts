/** Where the arrow keys lead from a box. */

import type { Layout } from "./layout";

/** Down to the first reader, up to the first producer, left and right in the order of calls. Inputs and outputs are passed over. */
export function step({ boxes, edges }: Layout, from: string | null, key: string): string | null {
  const stops = boxes.filter((box) => box.kind !== "input" && box.kind !== "output").map((box) => box.id);
  const at = stops.indexOf(from ?? "");
  if (at < 0) return key.startsWith("Arrow") ? (stops[0] ?? null) : null;
  const order = new Map(stops.map((id, place) => [id, place]));
  /** Of several, the one that is called first. */
  const first = (ids: string[]) =>
    ids.filter((id) => order.has(id)).sort((a, b) => (order.get(a) ?? 0) - (order.get(b) ?? 0))[0] ?? null;
  switch (key) {
    case "ArrowDown":
      return first(edges.filter((edge) => edge.from === from).map((edge) => edge.to));
    case "ArrowUp":
      return first(edges.filter((edge) => edge.to === from).map((edge) => edge.from));
    case "ArrowRight":
      return stops[at + 1] ?? null;
    case "ArrowLeft":
      return stops[at - 1] ?? null;
    case "Home":
      return stops[0] ?? null;
    case "End":
      return stops.at(-1) ?? null;
    default:
      return null;
  }
}
