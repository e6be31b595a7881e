/** How many bytes a tensor takes, as an expression over the sizes of a call. */
import { type Expression, ExpressionError } from "../program/expressions";
import type { DType, Encoding } from "./generated/model";

const PER_WORD: Record<DType | Encoding, number> = {
  float32: 1,
  int32: 1,
  uint32: 1,
  float16: 2,
  int8: 4,
  uint8: 4,
  bool: 4,
  int8x4: 4,
  uint8x4: 4,
  int4x8: 8,
  uint4x8: 8,
};

/** Throws an ExpressionError unless tensors of `dtype` are stored so. */
export function checkStored(dtype: DType, encoding: Encoding | null | undefined): void {
  const isFloat = dtype === "float32" || dtype === "float16";
  if (encoding && (encoding === "float16") !== isFloat)
    throw new ExpressionError(`${dtype} is not stored as ${encoding}`);
  if (dtype === "bool" && !encoding) throw new ExpressionError("bool is stored as an encoding only");
}

/** How many elements a tensor has. */
export function elementsOf(shape: readonly Expression[]): Expression {
  return shape.reduce<Expression>((product, extent) => ["mul", product, extent], 1);
}

/** What is stored of a tensor, padded to a multiple of 4. */
export function storedBytes(
  shape: readonly Expression[],
  dtype: DType,
  encoding: Encoding | null | undefined,
): Expression {
  const elements = elementsOf(shape);
  const perWord = PER_WORD[encoding ?? dtype];
  return ["mul", perWord === 1 ? elements : ["ceildiv", elements, perWord], 4];
}

/** What so many bytes take, padded to a multiple of 4. */
export const padded = (count: Expression): Expression => ["mul", ["ceildiv", count, 4], 4];

/** What such a multiple of 4 takes in a buffer: WebGPU binds no less than 4 bytes. */
export const bound = (count: Expression): Expression => ["max", count, 4];
