import { describe, expect, it } from "vitest";
import { describeBytes } from "../program/bytes";
import { paddedBytes, sizeClass } from "./sizes";

describe("sizes", () => {
  it("rounds up to words, and nothing to one", () => {
    expect([0, 1, 4, 5, 2 ** 33 + 1].map(paddedBytes)).toEqual([4, 4, 4, 8, 2 ** 33 + 4]);
  });

  it("are named as people do", () => {
    expect([12, 1536, 128 << 20, 2e9, 2 ** 38].map(describeBytes)).toEqual([
      "12 bytes",
      "1.5 kB",
      "134.2 MB",
      "2 GB",
      "274.9 GB",
    ]);
  });
});

describe("sizeClass", () => {
  const ANY = Number.POSITIVE_INFINITY;

  it("is 256 bytes at least", () => {
    expect([4, 255, 256].map((bytes) => sizeClass(bytes, ANY))).toEqual([256, 256, 256]);
  });

  it("has eight classes to a doubling", () => {
    const classes = new Set<number>();
    for (let bytes = 1025; bytes <= 2048; bytes++) classes.add(sizeClass(bytes, ANY));
    expect([...classes]).toEqual([1152, 1280, 1408, 1536, 1664, 1792, 1920, 2048]);
  });

  it("keeps powers of two as they are", () => {
    for (let power = 8; power < 40; power++) expect(sizeClass(2 ** power, ANY)).toBe(2 ** power);
  });

  it("wastes an eighth at most, in whole words", () => {
    for (const bytes of [260, 1028, 4100, 65_540, 1_000_004, 2 ** 30 + 4, 2 ** 33 + 4]) {
      const size = sizeClass(bytes, ANY);
      expect(size % 4).toBe(0);
      expect(size).toBeGreaterThanOrEqual(bytes);
      expect((size - bytes) / bytes).toBeLessThanOrEqual(1 / 8);
    }
  });

  it("never grows beyond what the device allows", () => {
    expect(sizeClass(1000, 1010)).toBe(1010);
    expect(sizeClass(10, 100)).toBe(100);
  });
});
