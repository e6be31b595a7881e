import { expect, test } from "vitest";
import vectors from "../../../tests/vectors/stored.json";
import { digestOf } from "./source";
import { widened } from "./stored";

const PATTERNS = new Uint8Array(Uint16Array.from({ length: 1 << 16 }, (_, bits) => bits).buffer);

test.each(["float16", "bfloat16"] as const)(
  "every pattern of %s becomes what it does in Python",
  async (kind) => {
    expect(await digestOf(widened(PATTERNS, kind))).toBe(vectors[kind]);
  },
);

test("a part of a longer file is widened by itself, and what is not stored in 16 bits stays", () => {
  const words = Uint16Array.of(0x3c00, 0x3c00, 0xc000, 0x0001);
  const part = new Uint8Array(words.buffer, 2, 6);
  expect([...new Float32Array(widened(part, "float16").buffer)]).toEqual([1, -2, 2 ** -24]);
  expect(widened(part, null)).toBe(part);
  expect(widened(part, undefined)).toBe(part);
});
