import { expect, it } from "vitest";
import { suite } from "../model/fixture";
import { step } from "./steps";
import { fit, opening, reveal, zoom } from "./viewport";

const pane = { width: 400, height: 300 };

it("fits everything, centred", () => {
  const view = fit({ width: 800, height: 1200 }, pane);
  expect(view.scale).toBe(0.25);
  expect(view.x).toBe(100);
});

it("opens a deep model at a readable scale, around its first operator", () => {
  const view = opening({ width: 1000, height: 9000 }, pane, 900);
  expect(view.scale).toBe(0.6);
  expect(view.x).toBe(-200);
});

it("zooms about the pointer", () => {
  const before = { x: 10, y: 20, scale: 1 };
  const after = zoom(before, 2, { x: 100, y: 100 });
  expect((100 - after.x) / after.scale).toBeCloseTo((100 - before.x) / before.scale);
});

it("moves only when the box cannot be seen", () => {
  const view = { x: 0, y: 0, scale: 1 };
  expect(reveal(view, { x: 10, y: 10, width: 50, height: 20 }, pane)).toBe(view);
  const moved = reveal(view, { x: 10, y: 5000, width: 50, height: 20 }, pane);
  expect(5000 + moved.y).toBeLessThan(pane.height);
  expect(5000 + moved.y).toBeGreaterThan(0);
});

it("steps along the graph by arrow keys", () => {
  const { graph } = suite;
  expect(step(graph, null, "ArrowDown")).toBe("n0");
  expect(step(graph, "n1", "ArrowDown")).toBe("n2");
  expect(step(graph, "n1", "ArrowUp")).toBe("n0");
  expect(step(graph, "n3", "ArrowRight")).toBeNull();
  expect(step(graph, "n1", "x")).toBeNull();
});
