/** What of a layout the pane shows: only that is drawn. */

import type { Box, Edge, Frame, Layout } from "./layout";
import type { Size, Viewport } from "./viewport";

/** Layouts of fewer boxes are drawn whole: leaving boxes out would not be felt, and readers of screens find them all. */
const DRAWN_WHOLE = 150;
/** Windows are widened to multiples of this, in pixels, so that not every movement draws anew. */
const GRID = 400;

export interface Window {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export interface Visible {
  boxes: Box[];
  frames: Frame[];
  edges: Edge[];
}

/** Null where all is drawn. The same object's values as long as the pane stays within one window. */
export function windowOf(layout: Layout, view: Viewport, pane: Size): Window | null {
  if (layout.boxes.length <= DRAWN_WHOLE) return null;
  // In the layout's units, in powers of two: the same through most of a zoom, and more the further away one is.
  const grid = GRID * 2 ** Math.max(0, Math.ceil(-Math.log2(view.scale)));
  const down = (value: number) => Math.max(0, Math.floor(value / grid) * grid - grid / 2);
  const up = (value: number, end: number) => Math.min(end, Math.ceil(value / grid) * grid + grid / 2);
  // Nothing is beyond the layout: where all of it is seen, it is the same window wherever one goes.
  return {
    left: down(-view.x / view.scale),
    top: down(-view.y / view.scale),
    right: up((pane.width - view.x) / view.scale, layout.width),
    bottom: up((pane.height - view.y) / view.scale, layout.height),
  };
}

export function visible({ boxes, frames, edges }: Layout, window: Window | null): Visible {
  if (window === null) return { boxes, frames, edges };
  const { left, top, right, bottom } = window;
  const within = (place: Box | Frame) =>
    place.x < right && place.x + place.width > left && place.y < bottom && place.y + place.height > top;
  return {
    boxes: boxes.filter(within),
    frames: frames.filter(within),
    edges: edges.filter((edge) => edge.top < bottom && edge.bottom > top),
  };
}

/** The box at a point of the layout. */
export function boxAt({ boxes }: Layout, x: number, y: number): Box | null {
  const hit = (box: Box) => x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height;
  return boxes.find(hit) ?? null;
}

/** One path around many boxes, to so many digits behind the point. */
export function outlineOf(boxes: readonly Box[], digits = 0): string {
  const text = (value: number) => value.toFixed(digits);
  return boxes
    .map(
      ({ x, y, width, height }) => `M${text(x)} ${text(y)}h${text(width)}v${text(height)}h${text(-width)}z`,
    )
    .join("");
}
