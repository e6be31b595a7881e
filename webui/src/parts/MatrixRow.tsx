import { useState } from "preact/hooks";
import { grouped, percent, seconds } from "../model/format";
import { shareText } from "../model/headline";
import { entryNode } from "../model/matrix";
import type { Figures, Row } from "../model/triage";
import { MatrixCell } from "./MatrixCell";
import { RunAgain } from "./RunAgain";
import type { Rerun, Shared } from "./shared";

interface MatrixRowProps extends Shared {
  /** What earlier runs say of a kernel: a new failure, flaky tests. */
  remarks: ReadonlyMap<string, string>;
  rerun: Rerun;
  row: Row;
  /** Among all rows, from 0. */
  place: number;
  open: boolean;
  toggle: (name: string) => void;
  /** By node, on the chosen device. */
  figures: ReadonlyMap<string, Figures>;
  /** Of all nodes. */
  all: Figures;
}

/** One kernel, block or kind, and its nodes where it is open. */
export function MatrixRow(props: MatrixRowProps) {
  const { row, open, devices, all } = props;
  const [most, setMost] = useState(MOST_NODES);
  const selected = props.node?.id;
  const pick = (device?: string) => {
    const node = entryNode(row, device);
    if (node !== undefined) props.select(node, device);
  };
  const [kernel, ...more] = row.kernels;
  const alone = more.length === 0 ? kernel : undefined;
  const remark = props.remarks.get(alone?.kernel ?? "");
  const within = row.nodes.some((node) => node.node === selected);
  const ofMany = row.name !== alone?.kernel;
  return (
    <tbody class={within ? "selected" : ""} data-row={props.place}>
      <tr aria-rowindex={props.place + 2}>
        <th scope="row">
          <div class="row-head">
            <button
              type="button"
              class="twist"
              aria-expanded={open}
              aria-label={`${open ? "Hide" : "Show"} the nodes of ${row.name}`}
              disabled={row.nodes.length === 0}
              onClick={() => props.toggle(row.name)}
            >
              <span aria-hidden="true">▸</span>
            </button>
            <button type="button" class="row-name clip" title={row.name} onClick={() => pick()}>
              {row.name}
            </button>
            {alone?.edited && (
              <RowMark
                sign="✎"
                text="edited: the WGSL, or how it is launched, differs from what was generated"
              />
            )}
            {alone && alone.unsupported !== null && <RowMark sign="⚠" text={alone.unsupported} />}
            {remark !== undefined && <RowMark sign="↯" text={remark} />}
            {alone && Object.values(row.cells).some((cell) => cell.state === "stale") && (
              <RunAgain kernel={alone.kernel} rerun={props.rerun} />
            )}
            <span class="row-count" title="nodes">
              ×{row.nodes.length}
            </span>
          </div>
        </th>
        {devices.map((device) => (
          <MatrixCell
            key={device.id}
            name={`${row.name} on ${device.name}`}
            cell={row.cells[device.id]}
            select={() => pick(device.id)}
          />
        ))}
        <FigureCells figures={row.figures} all={all} />
      </tr>
      {open &&
        row.nodes.slice(0, most).map((node) => (
          <tr key={node.node} class={`node-row${node.node === selected ? " selected" : ""}`}>
            <th scope="row">
              <button type="button" class="row-name clip" onClick={() => props.select(node.node)}>
                <code>{node.node}</code> {ofMany && `${node.kernel} `}
                <span class="muted">{node.name}</span>
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
            <FigureCells figures={props.figures.get(node.node)} all={all} />
          </tr>
        ))}
      {open && row.nodes.length > most && (
        <tr class="node-row">
          <th scope="row">
            <button type="button" class="quiet" onClick={() => setMost(most + MOST_NODES)}>
              {grouped(row.nodes.length - most)} more
            </button>
          </th>
        </tr>
      )}
    </tbody>
  );
}

/** Of an open row are drawn, and as many more when they are asked for. */
const MOST_NODES = 200;

/** In the columns that there are: of what is known at all. */
function FigureCells(props: { figures: Figures | undefined; all: Figures }) {
  const { figures, all } = props;
  const bound = figures?.bound ?? null;
  const gpu = figures?.gpu ?? null;
  return (
    <>
      {all.bound !== null && (
        <td class={`figure${bound !== null && bound > 1 ? " is-fail" : ""}`}>
          {bound === null ? "" : shareText(bound)}
        </td>
      )}
      {all.gpu !== null && (
        <td class="figure">
          {gpu !== null && (
            <>
              {seconds(gpu)}
              <span class="device-note">{percent(gpu, all.gpu)}</span>
            </>
          )}
        </td>
      )}
    </>
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
