import { describe, expect, it } from "vitest";
import { decodeHalf } from "../program/dtypes";
import { decodeHalves } from "./float16";

describe("decodeHalf", () => {
  it.each([
    [0x0000, 0],
    [0x0001, 2 ** -24],
    [0x03ff, 1023 * 2 ** -24],
    [0x0400, 2 ** -14],
    [0x3c00, 1],
    [0x3c01, 1 + 2 ** -10],
    [0xc000, -2],
    [0x7bff, 65504],
    [0xfbff, -65504],
    [0x7c00, Number.POSITIVE_INFINITY],
    [0xfc00, Number.NEGATIVE_INFINITY],
    [0x3555, 0.333251953125],
  ])("reads 0x%s", (bits, value) => {
    expect(decodeHalf(bits)).toBe(value);
  });

  it("keeps the sign of zero", () => {
    expect(Object.is(decodeHalf(0x8000), -0)).toBe(true);
  });

  it("knows every NaN", () => {
    for (const bits of [0x7c01, 0x7e00, 0x7fff, 0xfc01, 0xffff]) expect(decodeHalf(bits)).toBeNaN();
  });

  it("grows with the pattern over all finite positive values", () => {
    for (let bits = 1; bits <= 0x7c00; bits++) expect(decodeHalf(bits)).toBeGreaterThan(decodeHalf(bits - 1));
  });
});

describe("decodeHalves", () => {
  it("decodes a stretch", () => {
    const out = new Float32Array(3);
    decodeHalves(Uint16Array.of(0, 0x3c00, 0xc000, 0xffff), 1, 3, out);
    expect([...out]).toEqual([1, -2, Number.NaN]);
  });
});
