/** What a node is called: by the weight it reads, as the model's author wrote it, and the shape of what it gives. */

import type { Graph, Value } from "../api/types";

export interface NodeName {
  /** "layers.3.self_attn.q_proj"; the kernel where no weight names it. */
  title: string;
  /** "16 × 64" */
  shape: string;
  /** Numbers in the weights' names, by what stands before them: "layers" -> 3. Empty where there is none. */
  places: ReadonlyMap<string, number>;
}

/** A weight of more nodes than these (a rotary table, tied embeddings) names none of them. */
const READERS = 2;

export function nodeNames(graph: Graph): Map<string, NodeName> {
  const values = new Map(graph.values.map((value) => [value.id, value]));
  const readers = new Map<string, number>();
  for (const node of graph.nodes)
    for (const id of new Set(node.inputs)) readers.set(id, (readers.get(id) ?? 0) + 1);
  const own = (id: string): Value | undefined => {
    const value = values.get(id);
    if (value?.kind !== "parameter" || value.name === "") return undefined;
    return (readers.get(id) ?? 0) <= READERS ? value : undefined;
  };
  return new Map(
    graph.nodes.map((node) => {
      const weight = node.inputs.map(own).find((value) => value !== undefined)?.name;
      const result = values.get(node.outputs[0] ?? "");
      const name: NodeName = {
        title: weight === undefined ? node.kernel : titleOf(weight),
        shape: shapeText(result?.shape),
        places: weight === undefined ? new Map() : placesOf(weight),
      };
      return [node.id, name];
    }),
  );
}

/** "16 × 64"; "scalar" without axes. */
export function shapeText(shape: readonly number[] | undefined): string {
  if (shape === undefined) return "";
  return shape.length === 0 ? "scalar" : shape.join(" × ");
}

/** "model.model.layers.3.self_attn.q_proj.weight.T" -> "layers.3.self_attn.q_proj" */
export function titleOf(weight: string): string {
  const parts = weight.split(".");
  while (parts.length > 1 && ["T", "weight", "bias"].includes(parts.at(-1) ?? "")) parts.pop();
  const number = parts.findIndex((part, at) => at > 0 && isNumber(part));
  const from =
    number > 0 ? number - 1 : parts.findIndex((part, at) => part !== "model" || at === parts.length - 1);
  return parts.slice(from).join(".");
}

/** The first number of a weight's name, by the words before it. */
function placesOf(weight: string): Map<string, number> {
  const parts = weight.split(".");
  const at = parts.findIndex((part, place) => place > 0 && isNumber(part));
  return at < 0 ? new Map() : new Map([[parts.slice(0, at).join("."), Number(parts[at])]]);
}

function isNumber(part: string): boolean {
  return /^\d+$/.test(part);
}
