/** Where the arrow keys lead from a node. */

import type { Graph } from "../api/types";

/** Down to the first reader, up to the first producer, left and right in the order the operators are called. */
export function step(graph: Graph, from: string | null, key: string): string | null {
  const { nodes } = graph;
  const at = nodes.findIndex((node) => node.id === from);
  if (at < 0) return key.startsWith("Arrow") ? (nodes[0]?.id ?? null) : null;
  const node = nodes[at];
  switch (key) {
    case "ArrowDown":
      return nodes.find((other) => other.inputs.some((value) => node?.outputs.includes(value)))?.id ?? null;
    case "ArrowUp":
      return nodes.find((other) => other.outputs.some((value) => node?.inputs.includes(value)))?.id ?? null;
    case "ArrowRight":
      return nodes[at + 1]?.id ?? null;
    case "ArrowLeft":
      return nodes[at - 1]?.id ?? null;
    case "Home":
      return nodes[0]?.id ?? null;
    case "End":
      return nodes.at(-1)?.id ?? null;
    default:
      return null;
  }
}
