import { describe, expect, it } from "vitest";
import { contentPixels, firstLine, scrollTo, shownLines } from "./window";

describe("a window over lines", () => {
  it("reaches every line, of millions too", () => {
    for (const count of [1, 10, 11, 1000, 4_000_000]) {
      const all = { count, size: 22, view: 220 };
      const shown = shownLines(all);
      expect(contentPixels(all)).toBeLessThanOrEqual(6_000_000);
      const end = contentPixels(all) - all.view;
      expect(firstLine(all, 0)).toBe(0);
      expect(firstLine(all, end) + shown).toBe(count);
      for (const line of [0, 1, Math.floor(count / 2), Math.floor(count / 3), count - 1]) {
        // A scroll bar stops at whole pixels.
        const first = firstLine(all, Math.min(end, Math.round(scrollTo(all, 0, line))));
        expect(Math.abs(first + shown - 1 - line), `${line} of ${count}`).toBeLessThanOrEqual(
          line < shown ? shown : 1,
        );
      }
    }
  });

  it("is not scrolled for a line that is seen", () => {
    const all = { count: 100, size: 10, view: 50 };
    expect(scrollTo(all, 200, 21)).toBe(200);
    expect(firstLine(all, scrollTo(all, 200, 19))).toBe(19);
    expect(firstLine(all, scrollTo(all, 200, 30))).toBe(26);
  });
});
