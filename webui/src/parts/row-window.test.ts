import { expect, test } from "vitest";
import { PIECE, windowOfPieces } from "./use-row-window";

test("a few rows are all drawn", () => {
  expect(windowOfPieces(0, new Map(), { top: 0, height: 800 })).toEqual({
    first: 0,
    last: 0,
    above: 0,
    below: 0,
  });
  const few = windowOfPieces(PIECE + 3, new Map(), { top: 0, height: 800 });
  expect(few).toEqual({ first: 0, last: PIECE + 3, above: 0, below: 0 });
});

test("of ten thousand rows those near what is seen are drawn, and the others have their room", () => {
  const heights = new Map([[0, PIECE * 30]]);
  for (const top of [0, 5_000, 150_000, 299_200]) {
    const { first, last, above, below } = windowOfPieces(10_000, heights, { top, height: 800 });
    // Three times what is seen, and the rest of a piece at both ends.
    expect(last - first).toBeLessThanOrEqual((3 * 800) / 30 + 2 * PIECE);
    expect(first * 30).toBe(above);
    expect(above).toBeLessThanOrEqual(top);
    expect(last * 30).toBeGreaterThanOrEqual(Math.min(300_000, top + 800));
    expect(above + (last - first) * 30 + below).toBe(300_000);
  }
});

test("what was measured counts, and who is scrolled beyond a list that was filtered sees its end", () => {
  const heights = new Map([
    [0, 4_000],
    [1, 1_000],
  ]);
  const { first, above } = windowOfPieces(10 * PIECE, heights, { top: 4_900, height: 500 });
  expect([first, above]).toEqual([PIECE, 4_000]);
  const end = windowOfPieces(3 * PIECE, heights, { top: 90_000, height: 500 });
  expect([end.first, end.last, end.below]).toEqual([2 * PIECE, 3 * PIECE, 0]);
});
