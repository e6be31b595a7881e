import type { Marks } from "../model/locate";
import { GLYPH, ORDER, type State } from "../model/verdicts";
import { type NodeWords, nodeWord } from "./box-states";
import type { NodeStates, View } from "./types";

/** More suspects than these are numbered all the same. */
const MOST_MARKS = 3;

/** Only the states that occur, with how many nodes are in each. `words`: of nodes for which there are others. */
export function Legend(props: { states: NodeStates; marks: Marks; view: View; words: NodeWords }) {
  const counts = new Map<State, Map<string, number>>();
  for (const [node, state] of props.states) {
    const of = counts.get(state) ?? new Map<string, number>();
    const word = nodeWord(node, state, props.view, props.words);
    counts.set(state, of.set(word, (of.get(word) ?? 0) + 1));
  }
  if (counts.size === 0) return null;
  const marked = [...new Map([...props.marks.values()].map((mark) => [mark.label, mark])).values()];
  return (
    <ul class="row legend" aria-label="Nodes by state">
      {[...ORDER]
        .reverse()
        .flatMap((state) => [...(counts.get(state) ?? [])].map(([word, count]) => ({ state, word, count })))
        .map(({ state, word, count }) => (
          <li key={`${state} ${word}`}>
            <span class={`swatch is-${state}`} aria-hidden="true">
              {GLYPH[state]}
            </span>
            {count} {word}
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
