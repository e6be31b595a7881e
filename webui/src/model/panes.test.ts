import { expect, it } from "vitest";
import { FIRST, resized, sizesFrom, stepped } from "./panes";

it("leaves room for every pane", () => {
  expect(resized(FIRST, "list", 30).list).toBe(30);
  expect(resized(FIRST, "list", 2).list).toBe(15);
  expect(resized(FIRST, "list", 99).list).toBe(85);
  // Beside details of 38 hundredths the graph keeps its own.
  expect(resized(FIRST, "third", 99).third).toBe(47);
  expect(resized({ ...FIRST, third: 40 }, "detail", 80).detail).toBe(45);
  expect(resized(FIRST, "upper", 99).upper).toBe(85);
});

it("remembers sizes, and takes nothing else for sizes", () => {
  const sizes = { list: 30, third: 30, detail: 40, beside: 50, upper: 60 };
  expect(sizesFrom(JSON.stringify(sizes))).toEqual(sizes);
  for (const text of [null, "", "{", "7", "null", '{"list":"a"}', '{"width":900}', "[1,2]"])
    expect(sizesFrom(text), String(text)).toEqual(FIRST);
  const odd = sizesFrom('{"list":900,"third":80,"detail":80}');
  expect(odd.list).toBe(85);
  expect(odd.third + odd.detail).toBeLessThanOrEqual(85);
});

it("moves a border by keys", () => {
  expect(stepped(40, "ArrowRight", true)).toBe(42);
  expect(stepped(40, "ArrowUp", true)).toBeNull();
  expect(stepped(40, "ArrowUp", false)).toBe(38);
  expect(stepped(40, "Home", true)).toBe(15);
});
