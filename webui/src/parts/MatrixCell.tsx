import { type Cell, cellText } from "../model/matrix";
import { type Counts, describe, GLYPH, ORDER, total } from "../model/verdicts";

/** One cell: the worst state as a glyph and colour, how many passed, and the proportions as a bar. */
export function MatrixCell(props: { name: string; cell: Cell | undefined; select: () => void }) {
  const { cell } = props;
  if (cell === undefined || total(cell.counts) === 0) return <td class="cell" />;
  const told = `${describe(cell.counts)}${cell.counts.stale > 0 ? ` (${describe(cell.former)}): run it again` : ""}`;
  return (
    <td class="cell">
      <button type="button" class={`is-${cell.state}`} title={told} onClick={props.select}>
        <span aria-hidden="true">{GLYPH[cell.state]}</span>
        <span class="cell-text clip">{cellText(cell)}</span>
        <span class="sr-only">
          {props.name}: {told}
        </span>
        {total(cell.counts) > 1 && <CountsBar counts={cell.counts} />}
      </button>
    </td>
  );
}

export function CountsBar(props: { counts: Counts }) {
  return (
    <span class="counts-bar" aria-hidden="true">
      {[...ORDER].reverse().map((state) => {
        const n = props.counts[state];
        return n > 0 ? <span key={state} class={`is-${state}`} style={{ flexGrow: n }} /> : null;
      })}
    </span>
  );
}
