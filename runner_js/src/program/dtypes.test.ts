import { describe, expect, it } from "vitest";
import vectors from "../../../tests/vectors/encodings.json";
import { compare } from "../compare/compare";
import type { DType, Encoding, TensorType } from "../protocol/messages";
import { arrayOf, bytesOf, decoded, decodeHalf, describeType, encoded } from "./dtypes";

const fromHex = (text: string) =>
  Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));

describe.each(vectors.stored)("$dtype as $encoding", ({ encoding, dtype, shape, elements, bytes }) => {
  const type: TensorType = { dtype: dtype as DType, shape, encoding: encoding as Encoding | null };

  it("is read as tapml stored it", () => {
    expect(bytesOf(type)).toBe(bytes.length / 2);
    const found = Array.from(arrayOf(decoded(fromHex(bytes), type), type.dtype));
    expect(dtype === "float16" ? found.map(decodeHalf) : found).toEqual(elements.map(Number));
  });

  it("is stored as tapml stored it", () => {
    const read = decoded(fromHex(bytes), type);
    expect(encoded(read as Uint8Array<ArrayBuffer>, type)).toEqual(fromHex(bytes));
  });

  it("is compared by its elements, whatever lies behind the last one", () => {
    const stored = fromHex(bytes);
    const other = stored.slice();
    const used = elements.length * (bytes.length && encoding?.endsWith("x8") ? 0.5 : 1);
    if (encoding !== "float16" && Number.isInteger(used)) other.fill(0xff, used);
    const exact = { absolute: 0, relative: 0 };
    expect(compare(other, stored, type, exact)).toMatchObject({ total: elements.length, mismatched: 0 });
    if (!elements.length) return;
    other[0] = (other[0] as number) ^ 1;
    const found = compare(other, stored, type, exact);
    expect(found.mismatched).toBe(1);
    expect(found.first?.index).toEqual(shape.map(() => 0));
    expect(found.first?.expected).toBe(elements[0]);
  });
});

it.each([
  ["int8", "int4x8", Int8Array.of(8)],
  ["int32", "uint8x4", Int32Array.of(-1)],
  ["float32", "float16", Float32Array.of(0.1)],
  ["float32", "float16", Float32Array.of(65_536)],
] as const)("of %s as %s nothing is rounded in silence", (dtype, encoding, values) => {
  expect(encoded(new Uint8Array(values.buffer), { dtype, shape: [1], encoding })).toBeNull();
});

it("stores each half as itself", () => {
  const halves = Uint16Array.from({ length: 1 << 16 }, (_, bits) => bits).filter(
    (bits) => bits < 0x7c01 || (bits > 0x7fff && bits < 0xfc01),
  );
  const type: TensorType = { dtype: "float32", shape: [halves.length], encoding: "float16" };
  const stored = encoded(decoded(new Uint8Array(halves.buffer), type) as Uint8Array<ArrayBuffer>, type);
  expect(stored).toEqual(new Uint8Array(halves.buffer));
});

it("is said with its encoding", () => {
  expect(describeType({ dtype: "int8", shape: [2, 3], encoding: "int4x8" })).toBe("int8[2, 3] as int4x8");
});
