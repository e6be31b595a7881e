import type { Marks } from "../model/locate";
import { GLYPH, ORDER, type State, WORD } from "../model/verdicts";
import type { NodeStates, View } from "./types";

const OFFLOAD: Partial<Record<State, string>> = {
  pass: "on the device",
  fail: "moved, then put back",
  error: "operator error",
  unsupported: "operator unsupported",
  unbounded: "operator unbounded",
  none: "not moved",
};

/** More suspects than these are numbered all the same. */
const MOST_MARKS = 3;

/** Only the states that occur, with how many nodes are in each. */
export function Legend(props: { states: NodeStates; marks: Marks; view: View }) {
  const counts = new Map<State, number>();
  for (const state of props.states.values()) counts.set(state, (counts.get(state) ?? 0) + 1);
  if (counts.size === 0) return null;
  const marked = [...new Map([...props.marks.values()].map((mark) => [mark.label, mark])).values()];
  return (
    <ul class="row legend" aria-label="Nodes by state">
      {[...ORDER]
        .reverse()
        .filter((state) => counts.has(state))
        .map((state) => (
          <li key={state}>
            <span class={`swatch is-${state}`} aria-hidden="true">
              {GLYPH[state]}
            </span>
            {counts.get(state)} {(props.view === "offload" ? OFFLOAD[state] : undefined) ?? WORD[state]}
          </li>
        ))}
      {marked.slice(0, MOST_MARKS).map((mark) => (
        <li key={mark.label}>
          <span class="swatch swatch-mark" aria-hidden="true">
            {mark.label}
          </span>
          {mark.word}
        </li>
      ))}
    </ul>
  );
}
