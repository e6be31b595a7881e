/** Pan and zoom of the picture: screen = graph * scale + offset. */

export interface Viewport {
  x: number;
  y: number;
  scale: number;
}

export interface Size {
  width: number;
  height: number;
}

export const LEAST = 0.004;
export const MOST = 3;
/** The least at which names are read without effort. */
const READABLE = 0.75;

export function fit(content: Size, pane: Size): Viewport {
  const scale = clamp(Math.min(pane.width / content.width, pane.height / content.height, 1.2));
  return {
    scale,
    x: (pane.width - content.width * scale) / 2,
    y: (pane.height - content.height * scale) / 2,
  };
}

/** Deep models fitted whole are unreadable: start at the top, around `centre`, where the names can be read. */
export function opening(content: Size, pane: Size, centre: number): Viewport {
  const whole = fit(content, pane);
  if (whole.scale >= READABLE) return whole;
  const scale = clamp(Math.min(1, Math.max(READABLE, pane.width / content.width)));
  return { scale, x: centred(centre, content.width, pane.width, scale), y: 4 };
}

/** Zoom by a factor, keeping the point under the pointer where it is. */
export function zoom(view: Viewport, factor: number, at: { x: number; y: number }): Viewport {
  const scale = clamp(view.scale * factor);
  const real = scale / view.scale;
  return { scale, x: at.x - (at.x - view.x) * real, y: at.y - (at.y - view.y) * real };
}

/** Bring a box into view; as it is when it can be seen already and its name can be read. Near an edge of the picture it
 * is not in the middle: nothing is to be seen beyond the edge. */
export function reveal(
  view: Viewport,
  box: { x: number; y: number } & Size,
  pane: Size,
  content: Size,
): Viewport {
  const scale = Math.max(view.scale, 0.5);
  const left = box.x * view.scale + view.x;
  const top = box.y * view.scale + view.y;
  const seen =
    scale === view.scale &&
    left >= 0 &&
    top >= 0 &&
    left + box.width * scale <= pane.width &&
    top + box.height * scale <= pane.height;
  if (seen) return view;
  return {
    scale,
    x: centred(box.x + box.width / 2, content.width, pane.width, scale),
    y: centred(box.y + box.height / 2, content.height, pane.height, scale),
  };
}

/** The offset with which a place is in the middle, as far as there is picture on both sides; all of it, where it fits. */
function centred(at: number, content: number, pane: number, scale: number): number {
  const spare = pane - content * scale;
  return spare >= 0 ? spare / 2 : Math.min(0, Math.max(spare, pane / 2 - at * scale));
}

function clamp(scale: number): number {
  return Math.min(MOST, Math.max(LEAST, scale));
}
