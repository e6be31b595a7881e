import { describe, expect, it } from "vitest";
import vectors from "../../../tests/vectors/headline.json";
import { ofBound, repeatsDiagnostics, shareOf, shareText, shareTick, timeText } from "./headline";

it("leaves out a message that the compiler's lines tell", () => {
  const line = { severity: "error", line: 1, column: 1, message: "no", source: "x", file: "k.wgsl" };
  const said = { kind: "compile", gpu_message: null, lost_reason: null, arguments: null, stack: null };
  expect(repeatsDiagnostics({ error: said, diagnostics: [line] })).toBe(true);
  // A pipeline that does not fit has warnings at most: its own words are all there is.
  expect(repeatsDiagnostics({ error: said, diagnostics: [{ ...line, severity: "warning" }] })).toBe(false);
  expect(repeatsDiagnostics({ error: null, diagnostics: [] })).toBe(false);
});

describe("a verdict's headline", () => {
  it.each(vectors.results)("is $says", ({ worst, says, cell, ...more }) => {
    const [expected = 0, got = 0, bound = null] = (worst ?? []) as (number | "NaN" | null)[];
    const [absolute, relative] = more.tolerance ?? [];
    const result = {
      worst: worst && { output: 0, index: [0], expected: expected ?? 0, got: got ?? 0, bound },
      tolerances:
        absolute === undefined
          ? []
          : [{ absolute, relative: relative ?? 0, reasons: [], bound: null, ties: null }],
      max_abs_error: more.max_abs_error === undefined ? 1 : more.max_abs_error,
    };
    expect(ofBound(result)).toBe(says);
    const share = shareOf(result);
    expect(share === null ? null : shareText(share)).toBe(cell);
  });

  it("tells the GPU's time, not that of a batch", () => {
    expect(timeText({ seconds: { run: 0.04, gpu: 31e-6 } })).toBe("GPU 31 µs");
    expect(timeText({ seconds: { run: 0.04 } })).toBeNull();
  });
});

it("names powers of ten on an axis apart", () => {
  expect([0.01, 1, 100, 1e3, 1e4, 1e6].map(shareTick)).toEqual([
    "1 %",
    "100 %",
    "100 ×",
    "1000 ×",
    "1e4 ×",
    "1e6 ×",
  ]);
});
