/** A plane of a tensor as numbers: only what is seen is made, of millions of them too. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { shadeOf } from "../model/elements";
import type { Layer } from "../model/layers";
import type { Plane } from "../model/tensor";
import { contentPixels, firstLine, type Scrolled, scrollTo, shownLines } from "../model/window";
import { MOVES, type Place } from "./TensorPicture";

const ROW = 22;
const HEADS = 56;
/** Pixels of a digit. */
const DIGIT = 7.4;

export function TensorTable(props: {
  layer: Layer;
  plane: Plane;
  start: number;
  at: Place;
  setAt: (at: Place) => void;
}) {
  const { layer, plane, start, at, setAt } = props;
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ width: 300, height: 260 });
  const [scrolled, setScrolled] = useState({ left: 0, top: 0 });
  const longest = Math.max(
    8,
    ...[0, at.row * plane.columns + at.column].map((n) => layer.text(start + n).length),
  );
  const down: Scrolled = { count: plane.rows, size: ROW, view: view.height - ROW };
  const size = Math.ceil(Math.max(longest, 11) * DIGIT) + 14;
  const across: Scrolled = { count: plane.columns, size, view: view.width - HEADS };
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const look = new ResizeObserver(() =>
      setView({ width: element.clientWidth, height: element.clientHeight }),
    );
    look.observe(element);
    return () => look.disconnect();
  }, []);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    element.scrollTop = scrollTo(down, element.scrollTop, at.row);
    element.scrollLeft = scrollTo(across, element.scrollLeft, at.column);
  }, [at.row, at.column, view.width, view.height, plane]);

  const top = firstLine(down, scrolled.top);
  const left = firstLine(across, scrolled.left);
  const rows = lines(top, shownLines(down) + 1, plane.rows);
  const columns = lines(left, shownLines(across) + 1, plane.columns);
  const keys = (event: KeyboardEvent) => {
    const page = shownLines(down);
    const move = { ...MOVES, PageDown: [page, 0] as const, PageUp: [-page, 0] as const }[event.key];
    if (move === undefined) return;
    event.preventDefault();
    setAt({
      row: Math.min(plane.rows - 1, Math.max(0, at.row + move[0])),
      column: Math.min(plane.columns - 1, Math.max(0, at.column + move[1])),
    });
  };
  return (
    <div
      class="tensor-table"
      ref={box}
      style={{ height: `${Math.min(260, (plane.rows + 1) * ROW + 18)}px` }}
      role="application"
      aria-label={`${layer.name}, as numbers. Arrow keys go from one to the next.`}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: it is worked with by keys
      tabIndex={0}
      onKeyDown={keys}
      onScroll={({ currentTarget }) =>
        setScrolled({ left: currentTarget.scrollLeft, top: currentTarget.scrollTop })
      }
    >
      <div style={{ width: `${contentPixels(across) + HEADS}px`, height: `${contentPixels(down) + ROW}px` }}>
        <table style={{ width: `${HEADS + columns.length * size}px` }}>
          <thead>
            <tr>
              <td style={{ width: `${HEADS}px` }} />
              {columns.map((column) => (
                <th key={column} scope="col">
                  {column}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row}>
                <th scope="row">{row}</th>
                {columns.map((column) => {
                  const flat = start + row * plane.columns + column;
                  const here = row === at.row && column === at.column;
                  return (
                    // biome-ignore lint/a11y/useKeyWithClickEvents: arrow keys do the same, on the table as a whole
                    <td
                      key={column}
                      class={`${cellClass(layer, flat)}${here ? " here" : ""}`}
                      onClick={() => setAt({ row, column })}
                    >
                      {layer.text(flat)}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

function cellClass({ values, times }: Layer, flat: number): string {
  if (!Number.isFinite(values[flat] ?? 0)) return "strange";
  const over = times?.[flat] ?? 0;
  return over > 0 ? `shade shade-${shadeOf(over)}` : "";
}

function lines(first: number, shown: number, count: number): number[] {
  const length = Math.max(0, Math.min(shown, count - first));
  return Array.from({ length }, (_, line) => first + line);
}
