import type { State } from "../model/verdicts";
import { Glyph } from "./Basics";

const MOST = 12;

/** Nodes to select in the graph; many are folded away. */
export function NodeButtons(props: {
  nodes: readonly string[];
  /** Node -> what the model calls the value that it gives. */
  names?: { [node: string]: string };
  state: State;
  node: string | null;
  select: (node: string) => void;
}) {
  const button = (id: string) => (
    <button
      type="button"
      key={id}
      class="node-button"
      aria-pressed={id === props.node}
      onClick={() => props.select(id)}
    >
      <Glyph state={props.state} /> {id}{" "}
      {props.names?.[id] && (
        <span class="muted node-name" title={props.names[id]}>
          {props.names[id]}
        </span>
      )}
    </button>
  );
  const rest = props.nodes.slice(MOST);
  return (
    <span class="row node-buttons">
      {props.nodes.slice(0, MOST).map(button)}
      {rest.length > 0 && (
        <details>
          <summary>{rest.length} more</summary>
          <span class="row node-buttons">{rest.map(button)}</span>
        </details>
      )}
    </span>
  );
}
