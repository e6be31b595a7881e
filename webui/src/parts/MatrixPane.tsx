/** Operators x devices, failures first. Fills in while a validation runs. */

import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import type { DeviceDocument } from "../api/generated/results";
import { foldable } from "../graph/outline";
import { adapter, browser, count, deviceText, grouped } from "../model/format";
import { type Matrix, matching, troubled } from "../model/matrix";
import { isReported, reporter } from "../model/reported";
import { figuresOf, GROUPS, inGroups, type Row, SORTS, type Sort, sorted, whole } from "../model/triage";
import { type Counts, describe, total } from "../model/verdicts";
import { useQuery } from "../state/router";
import { Loading } from "./Basics";
import { CountsBar } from "./MatrixCell";
import { MatrixRow } from "./MatrixRow";
import type { Rerun, Shared } from "./shared";
import { useRowWindow } from "./use-row-window";

interface MatrixPaneProps extends Shared {
  matrix: Matrix;
  loaded: boolean;
  /** What earlier runs say of a kernel: a new failure, flaky tests. */
  remarks: ReadonlyMap<string, string>;
  rerun: Rerun;
}

export function MatrixPane(props: MatrixPaneProps) {
  const { matrix, devices, suite, state, device } = props;
  const [text, setText] = useQuery("filter", "typed");
  const [problems, setProblems] = useQuery("problems");
  const [groupName, setGroup] = useQuery("group");
  const [sortName, setSort] = useQuery("sort");
  const group = GROUPS.find((known) => known === groupName) ?? "kernel";
  const sort = SORTS.find((known) => known === sortName) ?? "failures";
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const figures = useMemo(() => figuresOf(suite, state, device), [suite, state, device]);
  const all = useMemo(() => whole(figures), [figures]);
  const blocks = useMemo(() => {
    const found = group === "block" ? foldable(suite.graph).groups.flatMap((one) => one.blocks) : [];
    return new Map(found.flatMap(({ label, nodes }) => nodes.map((node) => [node, label])));
  }, [suite, group]);
  const order = useMemo(() => new Map(suite.graph.nodes.map(({ id }, at) => [id, at])), [suite]);
  const rows = useMemo(() => {
    const heads = inGroups(matching(matrix.rows, text ?? ""), group, blocks, figures, order);
    return sorted(problems === null ? heads : troubled(heads), sort);
  }, [matrix, text, group, blocks, figures, order, problems, sort]);
  const box = useRef<HTMLElement>(null);
  const drawn = useRowWindow(rows.length, box);
  const toggle = (name: string) => {
    const next = new Set(open);
    if (!next.delete(name)) next.add(name);
    setOpen(next);
  };
  const heads = { sort, choose: (next: Sort) => setSort(next === sort || next === "failures" ? null : next) };
  // Whoever scrolls changes nothing of these, and a row that is the same one as before is not drawn again.
  const made = useMemo(() => new Map<string, JSX.Element>(), [props, rows, open, figures, all]);
  const drawnRow = (row: Row, place: number) => {
    const known = made.get(row.name);
    if (known !== undefined) return known;
    const part = (
      <MatrixRow
        key={row.name}
        {...props}
        row={row}
        place={place}
        open={open.has(row.name)}
        toggle={toggle}
        figures={figures}
        all={all}
      />
    );
    made.set(row.name, part);
    return part;
  };
  const columns = { bound: all.bound !== null, gpu: all.gpu !== null };
  const extra = Number(columns.bound) + Number(columns.gpu);
  return (
    <>
      <div class="row pane-tools">
        <input
          type="search"
          placeholder="Filter operators"
          aria-label="Filter operators by name"
          value={text ?? ""}
          onInput={(event) => setText(event.currentTarget.value || null)}
        />
        <label class="check">
          <input
            type="checkbox"
            checked={problems !== null}
            onChange={(event) => setProblems(event.currentTarget.checked ? "only" : null)}
          />
          problems only
        </label>
        <select
          aria-label="One row for each"
          value={group}
          onChange={({ currentTarget: { value } }) => setGroup(value === "kernel" ? null : value)}
        >
          {GROUPS.map((known) => (
            <option key={known} value={known}>
              by {known}
            </option>
          ))}
        </select>
      </div>
      {state.problems.length > 0 && (
        <ul class="messages" aria-label="Results that are left out">
          {state.problems.map((problem) => (
            <li key={problem}>
              <span aria-hidden="true">⚠ </span>
              {problem}
            </li>
          ))}
        </ul>
      )}
      {!props.loaded && <Loading what="results" />}
      {props.loaded && devices.length === 0 && (
        <p class="hint">
          Not run yet. Choose a device above, then Validate: each kernel runs on the carved inputs.
        </p>
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard */}
      <section ref={box} class="scroll" tabIndex={0} aria-label="Operators by device">
        <table
          class="matrix"
          aria-rowcount={rows.length > drawn.last - drawn.first ? rows.length + 1 : undefined}
          style={{ "--devices": devices.length, "--figures": extra }}
        >
          <thead>
            <tr>
              <SortHead {...heads} by="name" name={NAMES[group]} note={NOTES[sort]} />
              {devices.map((column) => (
                <DeviceColumn key={column.id} {...props} column={column} counts={matrix.totals[column.id]} />
              ))}
              {columns.bound && <SortHead {...heads} by="bound" name="of bound" />}
              {columns.gpu && <SortHead {...heads} by="gpu" name="GPU time" />}
            </tr>
          </thead>
          <Room pixels={drawn.above} />
          {rows.slice(drawn.first, drawn.last).map((row, at) => drawnRow(row, drawn.first + at))}
          <Room pixels={drawn.below} />
        </table>
        {rows.length === 0 && <p class="hint">No operator matches.</p>}
      </section>
    </>
  );
}

const NAMES = { kernel: "Operator", block: "Block", kind: "Kind of operator" } as const;
const NOTES: Partial<Record<Sort, string>> = { failures: "failures first", name: "by name" };

/** The head of a column that sorts by it; pressed again, failures are first. */
function SortHead(props: {
  sort: Sort;
  choose: (sort: Sort) => void;
  by: Sort;
  name: string;
  note?: string | undefined;
}) {
  const { sort, by, name, note } = props;
  const now = sort === by ? (by === "name" ? "ascending" : "descending") : undefined;
  return (
    <th scope="col" class={by === "name" ? "" : "figure-column"} aria-sort={now}>
      <button
        type="button"
        class="sort-head"
        title={now === undefined ? `Sort by ${name}` : "Failures first"}
        onClick={() => props.choose(by)}
      >
        {name}
        {now !== undefined && <span aria-hidden="true">{now === "ascending" ? " ▲" : " ▼"}</span>}
        {note !== undefined && <span class="device-note">{note}</span>}
      </button>
    </th>
  );
}

/** Of rows that are not drawn. */
function Room({ pixels }: { pixels: number }) {
  return pixels === 0 ? null : (
    <tbody aria-hidden="true">
      <tr style={{ height: `${pixels}px` }} />
    </tbody>
  );
}

function DeviceColumn(props: MatrixPaneProps & { column: DeviceDocument; counts: Counts | undefined }) {
  const { column, counts } = props;
  const former = props.state.outdated[column.id]?.length ?? 0;
  const missing = props.state.partial[column.id] ?? 0;
  return (
    <th scope="col" class="device-column">
      <button
        type="button"
        aria-pressed={column.id === props.device}
        title={`${deviceText(column)}\nColour the graph by this device`}
        onClick={() => props.choose(column.id)}
      >
        {isReported(column) && <span class="device-note clip">reported by</span>}
        <span class="device-name">{reporter(column)}</span>
        <span class="device-note clip">{adapter(column.adapter) || browser(column.user_agent)}</span>
        {counts && total(counts) > counts.none && (
          <>
            <span class="device-note">
              {counts.pass === total(counts) && former === 0
                ? `✓ ${grouped(counts.pass)} pass`
                : `${grouped(counts.pass)} of ${grouped(total(counts))} pass`}
              {former > 0 ? `, ${count(former, "kernel")} changed since` : ""}
            </span>
            {missing > 0 && (
              <span class="device-note" title="What these tests gave before stands, where they have run.">
                {grouped(missing)} not run
              </span>
            )}
            <CountsBar counts={counts} />
          </>
        )}
        <span class="sr-only">{counts ? describe(counts) : ""}</span>
      </button>
    </th>
  );
}
