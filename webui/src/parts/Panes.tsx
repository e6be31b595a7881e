/** The panes of a suite's page: results, graph, details; their sizes are remembered, and one of them can have all the room. */

import type { ComponentChildren } from "preact";
import { createContext } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { type Sizes, sizesFrom } from "../model/panes";
import { useQuery } from "../state/router";
import { Splitter } from "./Splitter";

export const PANES = ["list", "graph", "detail"] as const;
export type PaneName = (typeof PANES)[number];

const REMEMBERED = "tapml.panes";

const Maximised = createContext<[PaneName | null, (pane: PaneName | null) => void]>([null, () => {}]);

export function Panes(props: {
  class: string;
  list: ComponentChildren;
  graph: ComponentChildren;
  detail: ComponentChildren | null;
}) {
  const { list, graph, detail } = props;
  const room = useRef<HTMLDivElement>(null);
  const [sizes, setSizes] = useState(remembered);
  useEffect(() => remember(sizes), [sizes]);
  const [name, setName] = useQuery("max");
  const three = detail !== null;
  const there: PaneName[] = three ? ["list", "graph", "detail"] : ["list", "graph"];
  const most = there.find((pane) => pane === name) ?? null;
  const shared = { sizes, setSizes, room };
  const variables = Object.fromEntries(Object.entries(sizes).map(([side, size]) => [`--${side}`, size]));
  return (
    <Maximised.Provider value={[most, setName]}>
      <div
        ref={room}
        class={`workspace ${props.class}${three ? " with-detail" : ""}${most === null ? "" : ` only-${most}`}`}
        style={variables}
      >
        {list}
        <Splitter name="Width of the results" side={three ? "third" : "list"} {...shared} />
        {three && <Splitter name="Height of the results" side="upper" {...shared} />}
        {graph}
        {three && <Splitter name="Width of the details" side="detail" {...shared} />}
        {three && <Splitter name="Width of the details" side="beside" {...shared} />}
        {detail}
      </div>
    </Maximised.Provider>
  );
}

/** Gives a pane all the room, and takes it back. */
export function Maximise(props: { pane: PaneName; name: string }) {
  const [most, set] = useContext(Maximised);
  const on = most === props.pane;
  return (
    <button
      type="button"
      class="quiet maximise"
      aria-pressed={on}
      aria-label={`Only ${props.name}`}
      title={on ? "All panes again" : "All the room for this pane"}
      onClick={() => set(on ? null : props.pane)}
    >
      <span aria-hidden="true">{on ? "⤡" : "⤢"}</span>
    </button>
  );
}

function remembered(): Sizes {
  try {
    return sizesFrom(localStorage.getItem(REMEMBERED));
  } catch {
    return sizesFrom(null);
  }
}

function remember(sizes: Sizes): void {
  try {
    localStorage.setItem(REMEMBERED, JSON.stringify(sizes));
  } catch {
    // Only a convenience.
  }
}
