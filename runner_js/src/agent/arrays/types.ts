/** Elements row by row in a typed array; shapes and strides are Python's matter (python/tapml/arrays.py). */

export const ELEMENTS = {
  ...{ bool: Uint8Array, int8: Int8Array, int16: Int16Array, int32: Int32Array },
  ...{ uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array },
  ...{ float32: Float32Array, float64: Float64Array },
};
export type DType = keyof typeof ELEMENTS;
export type Elements = InstanceType<(typeof ELEMENTS)[DType]>;

/** A walk through elements: where it begins, and how far it is to the next one along each axis. */
export interface Walk {
  readonly data: Elements;
  readonly at: number;
  readonly strides: readonly number[];
}

export function made(dtype: string, count: number): Elements {
  return new ELEMENTS[dtype as DType](count);
}

/** Calls `row` with the first element's place of each walk, for each row along the last axis. */
export function rows(
  shape: readonly number[],
  walks: readonly Walk[],
  row: (places: readonly number[]) => void,
): void {
  const axes = shape.length - 1;
  if (shape.includes(0)) return;
  const index = new Array<number>(axes).fill(0);
  const places = walks.map(({ at }) => at);
  for (;;) {
    row(places);
    let axis = axes - 1;
    for (; axis >= 0; axis--) {
      const more = ++(index[axis] as number) < (shape[axis] as number);
      const by = more ? 1 : 1 - (shape[axis] as number);
      walks.forEach(({ strides }, i) => {
        (places[i] as number) += by * (strides[axis] as number);
      });
      if (more) break;
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}
