import { expect, it } from "vitest";
import { fit, opening, reveal, zoom } from "./viewport";

const pane = { width: 400, height: 300 };

it("fits everything, centred", () => {
  const view = fit({ width: 800, height: 1200 }, pane);
  expect(view.scale).toBe(0.25);
  expect(view.x).toBe(100);
});

it("opens a deep model at a readable scale, around its first operator", () => {
  const view = opening({ width: 1000, height: 9000 }, pane, 900);
  expect(view.scale).toBe(0.75);
  expect(view.x).toBe(-350);
});

it("zooms about the pointer", () => {
  const before = { x: 10, y: 20, scale: 1 };
  const after = zoom(before, 2, { x: 100, y: 100 });
  expect((100 - after.x) / after.scale).toBeCloseTo((100 - before.x) / before.scale);
});

it("moves only when the box cannot be seen, and shows nothing beyond the picture's edges", () => {
  const view = { x: 0, y: 0, scale: 1 };
  const content = { width: 900, height: 9000 };
  expect(reveal(view, { x: 10, y: 10, width: 50, height: 20 }, pane, content)).toBe(view);
  const moved = reveal(view, { x: 600, y: 5000, width: 50, height: 20 }, pane, content);
  expect(5010 + moved.y).toBe(pane.height / 2);
  const away = { x: -500, y: -5000, scale: 1 };
  const first = reveal(away, { x: 10, y: 10, width: 50, height: 20 }, pane, content);
  expect(first).toEqual({ x: 0, y: 0, scale: 1 });
  const last = reveal(view, { x: 800, y: 8970, width: 50, height: 20 }, pane, content);
  expect(last).toEqual({ x: pane.width - 900, y: pane.height - 9000, scale: 1 });
});
