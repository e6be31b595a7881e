/** Operators x devices. Fills in while a validation runs. */

import { useState } from "preact/hooks";
import type { DeviceDocument } from "../api/generated/results";
import { adapter, browser, count, deviceText } from "../model/format";
import { entryNode, type Filter, filterRows, type KernelRow, type Matrix } from "../model/matrix";
import { isReported, reporter } from "../model/reported";
import { type Counts, describe, total } from "../model/verdicts";
import { Loading } from "./Basics";
import { CountsBar, MatrixCell } from "./MatrixCell";
import type { Shared } from "./shared";

interface MatrixPaneProps extends Shared {
  matrix: Matrix;
  loaded: boolean;
  /** What earlier runs say of a kernel: a new failure, flaky tests. */
  remarks: ReadonlyMap<string, string>;
}

export function MatrixPane(props: MatrixPaneProps) {
  const { matrix, devices } = props;
  const [filter, setFilter] = useState<Filter>({ text: "", problems: false });
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const rows = filterRows(matrix.rows, filter);
  const toggle = (kernel: string) => {
    const next = new Set(open);
    if (!next.delete(kernel)) next.add(kernel);
    setOpen(next);
  };
  return (
    <>
      <div class="row pane-tools">
        <input
          type="search"
          placeholder="Filter operators"
          aria-label="Filter operators by name"
          value={filter.text}
          onInput={(event) => setFilter({ ...filter, text: event.currentTarget.value })}
        />
        <label class="check">
          <input
            type="checkbox"
            checked={filter.problems}
            onChange={(event) => setFilter({ ...filter, problems: event.currentTarget.checked })}
          />
          problems only
        </label>
      </div>
      {props.state.problems.length > 0 && (
        <ul class="messages" aria-label="Results that are left out">
          {props.state.problems.map((problem) => (
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
      <section class="scroll" tabIndex={0} aria-label="Operators by device">
        <table class="matrix" style={{ "--devices": devices.length }}>
          <thead>
            <tr>
              <th scope="col">Operator</th>
              {devices.map((device) => (
                <DeviceColumn key={device.id} {...props} column={device} counts={matrix.totals[device.id]} />
              ))}
            </tr>
          </thead>
          {rows.map((row) => (
            <KernelRows key={row.kernel} {...props} row={row} open={open.has(row.kernel)} toggle={toggle} />
          ))}
        </table>
        {rows.length === 0 && <p class="hint">No operator matches.</p>}
      </section>
    </>
  );
}

function DeviceColumn(props: MatrixPaneProps & { column: DeviceDocument; counts: Counts | undefined }) {
  const { column, counts } = props;
  const former = props.state.outdated[column.id]?.length ?? 0;
  return (
    <th scope="col" class="device-column">
      <button
        type="button"
        aria-pressed={column.id === props.device}
        title={`${deviceText(column)}\nColour the graph by this device`}
        onClick={() => props.choose(column.id)}
      >
        {isReported(column) && <span class="device-note clip">reported by</span>}
        <span class="device-name clip">{reporter(column)}</span>
        <span class="device-note clip">{adapter(column.adapter) || browser(column.user_agent)}</span>
        {counts && total(counts) > counts.none && (
          <>
            <span class="device-note clip">
              {counts.pass === total(counts) && former === 0 ? "✓ " : ""}
              {counts.pass}/{total(counts)}
              {former > 0 ? `, ${count(former, "kernel")} edited since` : ""}
            </span>
            <CountsBar counts={counts} />
          </>
        )}
        <span class="sr-only">{counts ? describe(counts) : ""}</span>
      </button>
    </th>
  );
}

function KernelRows(
  props: MatrixPaneProps & { row: KernelRow; open: boolean; toggle: (kernel: string) => void },
) {
  const { row, open, devices } = props;
  const selected = props.node?.id;
  const pick = (device?: string) => {
    const node = entryNode(row, device);
    if (node !== undefined) props.select(node, device);
  };
  const remark = props.remarks.get(row.kernel);
  const within = row.nodes.some((node) => node.node === selected);
  return (
    <tbody class={within ? "selected" : ""}>
      <tr>
        <th scope="row">
          <div class="row-head">
            <button
              type="button"
              class="twist"
              aria-expanded={open}
              aria-label={`${open ? "Hide" : "Show"} the nodes of ${row.kernel}`}
              disabled={row.nodes.length === 0}
              onClick={() => props.toggle(row.kernel)}
            >
              <span aria-hidden="true">▸</span>
            </button>
            <button type="button" class="row-name clip" title={row.kernel} onClick={() => pick()}>
              {row.kernel}
            </button>
            {row.edited && <RowMark sign="✎" text="edited: the WGSL differs from what was generated" />}
            {row.unsupported !== null && <RowMark sign="⚠" text={row.unsupported} />}
            {remark !== undefined && <RowMark sign="↯" text={remark} />}
            <span class="row-count" title="nodes that use this kernel">
              ×{row.nodes.length}
            </span>
          </div>
        </th>
        {devices.map((device) => (
          <MatrixCell
            key={device.id}
            name={`${row.kernel} on ${device.name}`}
            cell={row.cells[device.id]}
            select={() => pick(device.id)}
          />
        ))}
      </tr>
      {open &&
        row.nodes.map((node) => (
          <tr key={node.node} class={`node-row${node.node === selected ? " selected" : ""}`}>
            <th scope="row">
              <button type="button" class="row-name clip" onClick={() => props.select(node.node)}>
                <code>{node.node}</code> <span class="muted">{node.name}</span>
              </button>
            </th>
            {devices.map((device) => (
              <MatrixCell
                key={device.id}
                name={`${node.node} on ${device.name}`}
                cell={node.cells[device.id]}
                select={() => props.select(node.node, device.id)}
              />
            ))}
          </tr>
        ))}
    </tbody>
  );
}

/** What is worth knowing of a kernel, as a sign that tells it. */
function RowMark(props: { sign: string; text: string }) {
  return (
    <span class="row-mark" title={props.text}>
      {props.sign}
      <span class="sr-only"> {props.text}</span>
    </span>
  );
}
