/** Above the graph: whose colours, which node, how near, what is folded. */

import type { OutlineControl } from "../graph/use-outline";
import { count } from "../model/format";
import { Maximise } from "./Panes";
import type { Shared } from "./shared";

interface GraphToolsProps extends Shared {
  /** Whether the saved results are there. */
  loaded: boolean;
  ready: boolean;
  text: string;
  setText: (text: string) => void;
  /** Nodes that the text finds. */
  found: readonly string[];
  goNext: (by: 1 | -1) => void;
  folding: OutlineControl;
  /** Fold all, or open all where nothing is open. */
  foldAll: () => void;
  zoomBy: (factor: number) => void;
  fit: () => void;
}

export function GraphTools(props: GraphToolsProps) {
  const { ready, text, setText, found, goNext, folding, zoomBy } = props;
  const at = found.indexOf(props.node?.id ?? "");
  return (
    <div class="row pane-tools">
      <label class="colour-by">
        <span class="sr-only">Colours of</span>
        <select
          value={props.device ?? ""}
          disabled={props.devices.length === 0}
          onChange={(event) => props.choose(event.currentTarget.value)}
        >
          {props.devices.length === 0 && (
            <option value="">{props.loaded ? "no device yet" : "loading results…"}</option>
          )}
          {props.devices.map((device) => (
            <option key={device.id} value={device.id}>
              {device.name}
            </option>
          ))}
        </select>
      </label>
      <search class="row find">
        <input
          type="search"
          placeholder="Find a node"
          aria-label="Find a node in the graph; Enter goes to the next one"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter") goNext(event.shiftKey ? -1 : 1);
            // Escape empties the field, and nothing else.
            if (event.key !== "Escape" || text === "") return;
            event.preventDefault();
            setText("");
          }}
        />
        <output class="muted" aria-live="polite">
          {text.trim() === "" ? "" : at < 0 ? count(found.length, "node") : `${at + 1} of ${found.length}`}
        </output>
      </search>
      <div class="zoom">
        {folding.folds && (
          <button
            type="button"
            disabled={!ready}
            title="Blocks that repeat, such as a model's layers"
            onClick={props.foldAll}
          >
            {folding.open.size > 0 ? "Fold" : "Unfold"}
          </button>
        )}
        <button type="button" aria-label="Zoom out" onClick={() => zoomBy(1 / 1.4)}>
          −
        </button>
        <button type="button" aria-label="Zoom in" onClick={() => zoomBy(1.4)}>
          +
        </button>
        <button type="button" disabled={!ready} onClick={props.fit}>
          Fit
        </button>
        <Maximise pane="graph" name="the graph" />
      </div>
    </div>
  );
}
