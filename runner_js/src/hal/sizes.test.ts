import { describe, expect, it } from "vitest";
import { describeBytes, paddedBytes } from "./sizes";

describe("sizes", () => {
  it("rounds up to words, and nothing to one", () => {
    expect([0, 1, 4, 5, 2 ** 33 + 1].map(paddedBytes)).toEqual([4, 4, 4, 8, 2 ** 33 + 4]);
  });

  it("are named as people do", () => {
    expect([12, 1536, 128 << 20, 2 ** 38].map(describeBytes)).toEqual([
      "12 bytes",
      "1.5 KiB",
      "128 MiB",
      "256 GiB",
    ]);
  });
});
