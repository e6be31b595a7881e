/** A plane of a tensor, a cell for each element as far as pixels allow: zoom, pan, and one element under the cursor. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import {
  type Blocks,
  blocksOf,
  kept,
  type Plane,
  pixelsOf,
  type Sight,
  sampled,
  whole,
  zoomed,
} from "../model/tensor";
import { linesBetween } from "../model/workgroups";

/** Most pixels down. */
const HEIGHT = 300;

export interface Place {
  row: number;
  column: number;
}

/** 0xRRGGBB */
export type Colour = number;

export function TensorPicture(props: {
  name: string;
  plane: Plane;
  /** Of the plane's first element among all. */
  start: number;
  colour: (flat: number) => Colour;
  /** Of the elements that share a pixel the one that is farthest from 0 is shown, and NaN before all. */
  weights: Float64Array;
  /** The number of each element's workgroup, to draw lines between them. */
  numbers: Uint32Array | null;
  at: Place;
  setAt: (at: Place) => void;
  /** Another one when colours have to be drawn anew. */
  drawn: string;
}) {
  const { plane, start, weights, numbers, at, setAt, drawn } = props;
  const blocks = useMemo(() => blocksOf(weights, plane, start), [weights, plane, start]);
  const ground = useRef<HTMLCanvasElement | null>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const fitted = whole(plane, width || 300, HEIGHT);
  const [chosen, setSight] = useState<Sight | null>(null);
  const sight = chosen ?? fitted;
  const pixels = pixelsOf(plane, sight.scale);
  const size = {
    width: width || 300,
    height: Math.max(24, Math.min(HEIGHT, Math.ceil(plane.rows * pixels.y))),
  };
  const held = useRef<{ x: number; y: number; sight: Sight; moved: boolean } | null>(null);
  const theme = useTheme();

  useEffect(() => {
    if (canvas.current === null) return;
    const observer = new ResizeObserver(([entry]) => entry && setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(canvas.current);
    return () => observer.disconnect();
  }, []);
  // What is under the cursor stays as it was while that moves: there may be millions of elements.
  useEffect(() => {
    if (canvas.current === null || width === 0) return;
    const ink = getComputedStyle(canvas.current).color;
    ground.current = drawnGround({ ...props, blocks, ink }, sight, size);
  }, [drawn, theme, width, sight.row, sight.column, sight.scale, plane, start, weights, numbers]);
  useEffect(() => {
    if (canvas.current !== null && ground.current !== null)
      draw(canvas.current, ground.current, at, sight, plane);
  }, [
    drawn,
    theme,
    width,
    sight.row,
    sight.column,
    sight.scale,
    plane,
    start,
    weights,
    numbers,
    at.row,
    at.column,
  ]);
  // Not passive: the pane must not scroll along.
  useEffect(() => {
    const element = canvas.current;
    const wheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.shiftKey && document.activeElement !== element) return;
      event.preventDefault();
      const point = { x: event.offsetX, y: event.offsetY };
      setSight((old) => zoomed(old ?? fitted, Math.exp(-event.deltaY * 0.002), point, plane, size));
    };
    element?.addEventListener("wheel", wheel, { passive: false });
    return () => element?.removeEventListener("wheel", wheel);
  }, [width, plane, size.height]);

  const clamp = ({ row, column }: Place): Place => ({
    row: Math.min(plane.rows - 1, Math.max(0, row)),
    column: Math.min(plane.columns - 1, Math.max(0, column)),
  });
  const placeOf = (event: MouseEvent) =>
    clamp({
      row: Math.floor(sight.row + event.offsetY / pixels.y),
      column: Math.floor(sight.column + event.offsetX / pixels.x),
    });
  const zoomBy = (factor: number) => setSight(zoomed(sight, factor, middleOf(at, sight, plane), plane, size));
  const keys = (event: KeyboardEvent) => {
    const move = MOVES[event.key];
    if (move !== undefined) setAt(clamp({ row: at.row + move[0], column: at.column + move[1] }));
    else if (event.key === "+" || event.key === "=") zoomBy(1.5);
    else if (event.key === "-") zoomBy(1 / 1.5);
    else if (event.key === "Home") setSight(null);
    else return;
    event.preventDefault();
  };

  return (
    <div class="tensor-picture">
      {/* biome-ignore lint/a11y/noInteractiveElementToNoninteractiveRole: it is worked with by keys, as one thing */}
      <canvas
        ref={canvas}
        style={{ height: `${size.height}px` }}
        role="application"
        aria-label={`${props.name}. Arrow keys read out elements, plus and minus zoom, Home shows all.`}
        tabindex={0}
        onKeyDown={keys}
        onPointerDown={(event) => {
          held.current = { x: event.clientX, y: event.clientY, sight, moved: false };
          event.currentTarget.setPointerCapture(event.pointerId);
          setAt(placeOf(event));
        }}
        onPointerMove={(event) => {
          const from = held.current;
          if (from === null) return setAt(placeOf(event));
          const [dx, dy] = [event.clientX - from.x, event.clientY - from.y];
          if (!from.moved && Math.hypot(dx, dy) < 4) return;
          from.moved = true;
          const { row, column, scale } = from.sight;
          setSight(kept({ scale, row: row - dy / pixels.y, column: column - dx / pixels.x }, plane, size));
        }}
        onPointerUp={() => {
          held.current = null;
        }}
      />
      <div class="row picture-tools">
        <button type="button" aria-label="Zoom the picture out" onClick={() => zoomBy(1 / 1.5)}>
          −
        </button>
        <button type="button" aria-label="Zoom the picture in" onClick={() => zoomBy(1.5)}>
          +
        </button>
        <button type="button" onClick={() => setSight(null)}>
          All
        </button>
        <span class="muted">
          {plane.rows} × {plane.columns}
          {pixels.x * pixels.y < 1 && "; a pixel shows the one farthest from 0 of several"}
        </span>
      </div>
    </div>
  );
}

export const MOVES: Record<string, readonly [number, number]> = {
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
};

function middleOf(at: Place, sight: Sight, plane: Plane): { x: number; y: number } {
  const { x, y } = pixelsOf(plane, sight.scale);
  return { x: (at.column + 0.5 - sight.column) * x, y: (at.row + 0.5 - sight.row) * y };
}

/** Another value when the page's colours have changed. */
function useTheme(): boolean {
  const [dark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const change = () => setDark(query.matches);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  return dark;
}

interface Drawing {
  plane: Plane;
  start: number;
  colour: (flat: number) => Colour;
  blocks: Blocks;
  numbers: Uint32Array | null;
  /** Of lines between workgroups. */
  ink: string;
}

/** All but the cursor, as many pixels as the screen has for it. */
function drawnGround(
  { plane, start, colour, blocks, numbers, ink }: Drawing,
  sight: Sight,
  size: { width: number; height: number },
): HTMLCanvasElement | null {
  const made = document.createElement("canvas");
  const dense = devicePixelRatio || 1;
  made.width = Math.round(size.width * dense);
  made.height = Math.round(size.height * dense);
  const context = made.getContext("2d");
  const cells = sampled(blocks, plane, sight, size);
  if (context === null || cells.across < 1 || cells.down < 1) return made;
  context.scale(dense, dense);
  const { across, down, high, wide, top, left } = cells;
  const pixels = new ImageData(across, down);
  const words = new Uint32Array(pixels.data.buffer);
  for (const [pixel, flat] of cells.shown.entries()) {
    const found = colour(flat);
    words[pixel] = 0xff000000 | ((found & 0xff) << 16) | (found & 0xff00) | (found >> 16);
  }
  const small = document.createElement("canvas");
  [small.width, small.height] = [across, down];
  small.getContext("2d")?.putImageData(pixels, 0, 0);
  context.imageSmoothingEnabled = false;
  const each = pixelsOf(plane, sight.scale);
  const [width, height] = [wide * each.x, high * each.y];
  const [x0, y0] = [(left - sight.column) * each.x, (top - sight.row) * each.y];
  context.drawImage(small, x0, y0, across * width, down * height);
  if (numbers === null) return made;
  const owner = (row: number, column: number) =>
    numbers[start + (top + row * high) * plane.columns + left + column * wide] ?? 0;
  const lines = linesBetween(down, across, Math.min(width, height), owner);
  if (lines === null) return made;
  context.strokeStyle = ink;
  context.lineWidth = 1;
  context.beginPath();
  for (const { row, from, to } of lines.horizontal) {
    const y = Math.round(y0 + row * height) + 0.5;
    context.moveTo(x0 + from * width, y);
    context.lineTo(x0 + to * width, y);
  }
  for (const { column, from, to } of lines.vertical) {
    const x = Math.round(x0 + column * width) + 0.5;
    context.moveTo(x, y0 + from * height);
    context.lineTo(x, y0 + to * height);
  }
  context.stroke();
  return made;
}

function draw(
  canvas: HTMLCanvasElement,
  ground: HTMLCanvasElement,
  at: Place,
  sight: Sight,
  plane: Plane,
): void {
  [canvas.width, canvas.height] = [ground.width, ground.height];
  const context = canvas.getContext("2d");
  if (context === null) return;
  context.drawImage(ground, 0, 0);
  const dense = devicePixelRatio || 1;
  context.scale(dense, dense);
  // The element that is told below, in a light and a dark line: one of them can be seen on any shade.
  const each = pixelsOf(plane, sight.scale);
  const [width, height] = [Math.max(each.x, 5), Math.max(each.y, 5)];
  const middle = middleOf(at, sight, plane);
  for (const [line, ink] of [
    [4, "#fff"],
    [2, "#000"],
  ] as const) {
    context.lineWidth = line;
    context.strokeStyle = ink;
    context.strokeRect(middle.x - width / 2, middle.y - height / 2, width, height);
  }
}
