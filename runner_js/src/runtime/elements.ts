import type { InputPort } from "../compiled/generated/model";
import { ELEMENTS } from "../compiled/tensors";
import { evaluate, printed, type Sizes } from "../program/expressions";
import type { DType } from "../protocol/messages";
import type { HalfArray, InputData, TensorData } from "./api";
import { TapmlError } from "./error";

/** What holds the elements of a dtype. */
export const ARRAYS: Record<DType, readonly string[]> = {
  float32: ["Float32Array"],
  float16: ["Float16Array", "Uint16Array"],
  int32: ["Int32Array"],
  uint32: ["Uint32Array"],
  int8: ["Int8Array"],
  uint8: ["Uint8Array", "Uint8ClampedArray"],
  bool: ["Uint8Array", "Uint8ClampedArray"],
};
const INTEGERS = /^(Big)?(Int|Uint)\d+(Clamped)?Array$/;
const FLOATS = /^Float\d+Array$/;
const MADE = { int32: Int32Array, uint32: Uint32Array, int8: Int8Array, uint8: Uint8Array };

/** "Float32Array"; empty for what is no typed array. */
export function nameOf(data: unknown): string {
  return ArrayBuffer.isView(data)
    ? ((data as unknown as { [Symbol.toStringTag]?: string })[Symbol.toStringTag] ?? "")
    : "";
}

/** As `dtype` has the elements: integers where all of them fit, other floating-point numbers rounded; otherwise null. */
export function takenAs(data: InputData, dtype: DType): TensorData | null {
  const name = nameOf(data);
  if (ARRAYS[dtype].includes(name)) return data as TensorData;
  if (FLOATS.test(name)) {
    const { Float16Array: Half } = globalThis as {
      Float16Array?: new (from: ArrayLike<number>) => HalfArray;
    };
    const Made = { float32: Float32Array, float16: Half }[dtype as string];
    return Made ? new Made(data as Float64Array) : null;
  }
  const limits = ELEMENTS[dtype];
  if (!INTEGERS.test(name) || !limits) return null;
  const found = Array.from(data as ArrayLike<number | bigint>, Number);
  const fits = found.every((element) => limits[0] <= element && element <= limits[1]);
  return fits ? MADE[dtype as keyof typeof MADE].from(found) : null;
}

/** Why `takenAs` gives null. */
export function mismatch(data: unknown, dtype: DType): string {
  const name = nameOf(data);
  if (INTEGERS.test(name) && ELEMENTS[dtype]) return `has elements that no ${dtype} is`;
  return `is ${name ? `of type ${name}` : "no typed array"}`;
}

/** Throws a TapmlError for an element that lies in nothing that it indexes, at the sizes of a call. */
export function checkRange({ name, range }: InputPort, data: TensorData, sizes: Sizes): void {
  if (!range) return;
  const [least, most] = range.map((end) => evaluate(end, sizes)) as [number, number];
  const described = range
    .map((end) => (typeof end === "number" ? end : `${evaluate(end, sizes)} (${printed(end)})`))
    .join(" to ");
  for (let place = 0; place < data.length; place++) {
    const element = data[place] as number;
    if (element < least || element > most)
      throw new TapmlError(
        "input",
        `input ${name} is ${element} at element ${place}, and must be from ${described}`,
        "it is an index, and there is nothing at any other",
      );
  }
}
