import { describe, expect, it } from "vitest";
import * as format from "./format";

describe("number", () => {
  it.each([
    [0, "0"],
    [1.9e-7, "1.9e-7"],
    [0.0123456, "0.0123"],
    [12.3456, "12.3"],
    [1234.5, "1235"],
    [-0.5, "-0.5"],
    [2.5e9, "2.5e9"],
    ["NaN", "NaN"],
    ["Infinity", "∞"],
    ["-Infinity", "−∞"],
    [Number.NaN, "NaN"],
    [null, "–"],
  ] as const)("shows %s as %s", (value, text) => expect(format.number(value)).toBe(text));

  it("never shows a round power of ten as an exponent with a fraction", () => {
    expect(format.number(1e-7)).toBe("1e-7");
    expect(format.number(100)).toBe("100");
    expect(format.number(1000)).toBe("1000");
  });
});

it("tells two neighbouring float32 apart", () => {
  expect(format.exact(0.1270453)).not.toBe(format.exact(0.1270456));
  expect(format.exact(101)).toBe("101");
  expect(format.exact("NaN")).toBe("NaN");
});

it("does not round a cosine up to a perfect one", () => {
  expect(format.cosine(1)).toBe("1.000000");
  expect(format.cosine(0.9999999999)).toBe("1.000000");
  expect(format.cosine(0.9999985)).toBe("0.999999");
  expect(format.cosine(0.98731)).toBe("0.987310");
  expect(format.cosine(null)).toBe("–");
});

it.each([
  [0, "0 B"],
  [999, "999 B"],
  [1000, "1 kB"],
  [1_234_567, "1.2 MB"],
  [94_371_840, "94.4 MB"],
  [4_210_000_000, "4.2 GB"],
])("bytes %d -> %s", (count, text) => expect(format.bytes(count)).toBe(text));

it("counts", () => {
  expect(format.count(1, "test")).toBe("1 test");
  expect(format.count(1269, "test")).toBe("1,269 tests");
  expect(format.short(88_213_377)).toBe("88.2 M");
  expect(format.short(9999)).toBe("9,999");
  expect([0, 999, 1152, 12_345, 999_600, 88_213_377].map(format.tiny)).toEqual([
    "0",
    "999",
    "1.2k",
    "12k",
    "1000k",
    "88M",
  ]);
});

it.each([
  [0, "0 s"],
  [0.0007, "700 µs"],
  [0.0012, "1.2 ms"],
  [3.44, "3.4 s"],
  [125, "2 min 5 s"],
])("seconds %d -> %s", (value, text) => expect(format.seconds(value)).toBe(text));

it("does not call a few elements none, nor almost all all", () => {
  expect(format.percent(1, 5760)).toBe("<1%");
  expect(format.percent(5759, 5760)).toBe(">99%");
  expect(format.percent(0, 0)).toBe("0%");
});

it("names browsers", () => {
  expect(format.browser("Mozilla/5.0 ... Chrome/156.0.0.0 Safari/537.36")).toBe("Chrome 156");
  expect(format.browser("Mozilla/5.0 ... Chrome/156.0.0.0 Safari/537.36 Edg/156.0")).toBe("Edge 156");
  expect(format.browser("Mozilla/5.0 (X11; rv:153.0) Gecko/20100101 Firefox/153.0")).toBe("Firefox 153");
  expect(format.browser("Mozilla/5.0 (Macintosh) AppleWebKit/605 Version/27.1 Safari/605")).toBe(
    "Safari 27.1",
  );
  expect(format.browser("something else")).toBe("");
});
