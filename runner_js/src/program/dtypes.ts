import type { DType, TensorType } from "../protocol/messages";

export const BYTES_PER_ELEMENT: Record<DType, number> = {
  float32: 4,
  float16: 2,
  int32: 4,
  uint32: 4,
  int8: 1,
  uint8: 1,
};

export function elementsOf(shape: readonly number[]): number {
  return shape.reduce((product, extent) => product * extent, 1);
}

export function bytesOf(type: TensorType): number {
  return elementsOf(type.shape) * BYTES_PER_ELEMENT[type.dtype];
}

/** "float32[1, 16, 384]" */
export function describeType(type: TensorType): string {
  return `${type.dtype}[${type.shape.join(", ")}]`;
}
