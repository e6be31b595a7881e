import type { CompiledFunction, CompiledModel, CompiledTensor, InputPort } from "../compiled/generated/model";
import { arrayOf, bytesOf, decoded, describeType, elementsOf, encoded } from "../program/dtypes";
import {
  checkSizes,
  ExpressionError,
  evaluate,
  printed,
  type SizeSymbol,
  type Sizes,
} from "../program/expressions";
import type { TensorType } from "../protocol/messages";
import type { HalfArray, InputData, LeftOutput, TensorData, TensorInput } from "./api";
import { ARRAYS, checkRange, mismatch, nameOf, takenAs } from "./elements";
import { TapmlError } from "./error";

/** One input of a call, checked: what is bound, or the bytes that are written to what is, or the output that is copied there. */
export type CheckedInput =
  | { buffer: GPUBuffer }
  | { bytes: Uint8Array<ArrayBuffer> }
  | { output: string; type: TensorType };

export interface CheckedCall {
  sizes: Sizes;
  inputs: CheckedInput[];
}

interface Input {
  port: InputPort;
  name: string;
  tensor: CompiledTensor;
  data: TensorData | GPUBuffer | LeftOutput;
  shape: readonly number[] | null;
}

/** The sizes of a call and its inputs' bytes. Throws a TapmlError of kind "input" or "size". */
export function checkCall(
  { symbols }: CompiledModel,
  fn: CompiledFunction,
  used: ReadonlySet<string>,
  given: Readonly<Record<string, TensorInput>>,
  givenSizes: Sizes,
): CheckedCall {
  const inputs = inputsOf(fn, given);
  const needed = symbols.filter(({ name }) => used.has(name));
  const found: Record<string, number> = { ...givenSizes };
  for (const { name, tensor, shape } of inputs) if (shape) matchShape(name, tensor, shape, found);
  for (let known = -1; known < Object.keys(found).length; ) {
    known = Object.keys(found).length;
    for (const { name, tensor, data, shape } of inputs) {
      if (!shape && !isBuffer(data) && !isLeft(data)) solve(name, tensor, data.length, found);
    }
  }
  checkRanges(needed, found);
  return { sizes: found, inputs: inputs.map((input) => checkedInput(input, found)) };
}

function inputsOf(
  { inputs, tensors }: CompiledFunction,
  given: Readonly<Record<string, TensorInput>>,
): Input[] {
  const names = inputs.map(({ name }) => name);
  const takes = names.length
    ? `there ${names.length > 1 ? "are" : "is"} ${names.join(", ")}`
    : "there are none";
  for (const name of Object.keys(given)) {
    if (!names.includes(name)) throw new TapmlError("input", `there is no input ${name}`, takes);
  }
  return inputs.map((port) => {
    const { name, tensor: index } = port;
    const tensor = tensors[index] as CompiledTensor;
    const value = Object.hasOwn(given, name) ? given[name] : undefined;
    if (!value) throw new TapmlError("input", `input ${name} is missing`, `give ${describeArray(tensor)}`);
    if (isLeft(value)) return { port, name, tensor, data: value, shape: null };
    const shaped = !ArrayBuffer.isView(value) && "shape" in value && "data" in value;
    const from = shaped ? value.data : (value as InputData | GPUBuffer);
    const data = isBuffer(from) ? from : takenAs(from, tensor.dtype);
    if (!data) throw wrong(name, tensor, mismatch(from, tensor.dtype));
    const shape = shaped ? value.shape : null;
    // First, for sizes that other inputs are held against follow from the shape.
    if (Array.isArray(shape) && !isBuffer(data) && data.length !== elementsOf(shape))
      throw wrong(
        name,
        tensor,
        `has ${data.length} elements, and its shape [${shape}] has ${elementsOf(shape)}`,
      );
    return { port, name, tensor, data, shape };
  });
}

function isBuffer(data: unknown): data is GPUBuffer {
  return typeof GPUBuffer !== "undefined" && data instanceof GPUBuffer;
}

function isLeft(data: unknown): data is LeftOutput {
  return typeof (data as { output?: unknown }).output === "string";
}

function matchShape(
  name: string,
  tensor: CompiledTensor,
  shape: readonly number[],
  found: Record<string, number>,
): void {
  if (!Array.isArray(shape) || shape.length !== tensor.shape.length) {
    throw wrong(name, tensor, `has the shape [${shape}]`);
  }
  tensor.shape.forEach((extent, axis) => {
    const size = shape[axis] as number;
    if (typeof extent !== "string") return;
    if (Object.hasOwn(found, extent) && found[extent] !== size) {
      const sentence = `input ${name} has the shape [${shape}], where ${extent} is ${size}, and elsewhere it is ${found[extent]}`;
      throw new TapmlError("size", sentence, `all of a call's ${extent} must be one size`);
    }
    found[extent] = size;
  });
}

/** The size that follows from the number of elements, where one is unknown yet. */
function solve(name: string, tensor: CompiledTensor, elements: number, found: Record<string, number>): void {
  const unknown = tensor.shape.filter(
    (extent) => typeof extent === "string" && !Object.hasOwn(found, extent),
  );
  const [symbol] = unknown;
  if (unknown.length !== 1 || typeof symbol !== "string") return;
  let others = 1;
  try {
    for (const extent of tensor.shape) if (extent !== symbol) others *= evaluate(extent, found);
  } catch {
    return; // An expression of what is unknown yet.
  }
  if (!others || elements % others) throw wrong(name, tensor, `has ${elements} elements`);
  found[symbol] = elements / others;
}

function checkRanges(symbols: readonly SizeSymbol[], sizes: Record<string, number>): void {
  try {
    for (const [name, size] of Object.entries(sizes)) {
      if (!Number.isSafeInteger(size))
        throw new ExpressionError(`${name} is ${size}, and must be an integer`);
    }
    checkSizes(symbols, sizes);
  } catch (cause) {
    if (!(cause instanceof ExpressionError)) throw cause;
    throw new TapmlError(
      "size",
      cause.message,
      "give sizes in the model's range, by inputs as { data, shape }, or by the option `sizes`",
    );
  }
}

function checkedInput({ port, name, tensor, data, shape }: Input, sizes: Sizes): CheckedInput {
  const type = typeAt(tensor, sizes);
  if (shape && shape.join() !== type.shape.join()) throw wrong(name, tensor, `has the shape [${shape}]`);
  if (isLeft(data)) return { output: data.output, type };
  const bytes = bytesOf(type);
  if (isBuffer(data)) {
    const padded = Math.ceil(bytes / 4) * 4;
    const described = `${describeType(type)} takes ${padded} bytes`;
    if (data.size < padded)
      throw new TapmlError("input", `the buffer of input ${name} has ${data.size} bytes`, described);
    if (!(data.usage & GPUBufferUsage.STORAGE))
      throw new TapmlError(
        "input",
        `the buffer of input ${name} is not made to be read by a kernel`,
        "make it with GPUBufferUsage.STORAGE",
      );
    return { buffer: data };
  }
  if (data.length !== elementsOf(type.shape)) {
    throw wrong(
      name,
      tensor,
      `has ${data.length} elements, where ${describeType(type)} has ${elementsOf(type.shape)}`,
    );
  }
  checkRange(port, data, sizes);
  const stored = storedBytes(data, tensor, sizes);
  if (!stored) throw wrong(name, tensor, `has elements that ${tensor.encoding} cannot store`);
  return { bytes: stored };
}

/** What is stored of elements, whole words; null where they are not those of the tensor at these sizes. */
export function storedBytes(
  data: TensorData,
  tensor: CompiledTensor,
  sizes: Sizes,
): Uint8Array<ArrayBuffer> | null {
  const type = typeAt(tensor, sizes);
  if (!ARRAYS[tensor.dtype].includes(nameOf(data)) || data.length !== elementsOf(type.shape)) return null;
  const raw = new Uint8Array(data.buffer as ArrayBuffer, data.byteOffset, data.byteLength);
  // What is packed is read as whole elements, wherever it lies.
  const stored = encoded(type.encoding ? raw.slice() : raw, type);
  if (!stored || stored.length % 4 === 0) return stored;
  const padded = new Uint8Array(Math.ceil(stored.length / 4) * 4);
  padded.set(stored);
  return padded;
}

/** A tensor at the sizes of a call. */
export function typeAt(
  { dtype, shape, encoding }: Pick<CompiledTensor, "dtype" | "shape" | "encoding">,
  sizes: Sizes,
): TensorType {
  const extents = shape.map((extent) => evaluate(extent, sizes));
  return encoding ? { dtype, shape: extents, encoding } : { dtype, shape: extents };
}

/** The elements of what was read back. */
export function arrayAt(bytes: Uint8Array, type: TensorType): TensorData {
  const data = decoded(bytes, type);
  const own = data === bytes || data.byteOffset ? data.slice() : data;
  const half = (globalThis as { Float16Array?: new (buffer: ArrayBufferLike) => HalfArray }).Float16Array;
  return type.dtype === "float16" && half ? new half(own.buffer) : arrayOf(own, type.dtype);
}

function wrong(name: string, tensor: CompiledTensor, what: string): TapmlError {
  return new TapmlError("input", `input ${name} ${what}`, `give ${describeArray(tensor)}`);
}

function describeArray(tensor: CompiledTensor): string {
  const name = ARRAYS[tensor.dtype][0] ?? "";
  return `${/^[AEIOU]/.test(name) && !name.startsWith("U") ? "an" : "a"} ${name} of ${describeTensor(tensor)}`;
}

/** "float32[n, 384]" */
export function describeTensor({ dtype, shape }: Pick<CompiledTensor, "dtype" | "shape">): string {
  return `${dtype}[${shape.map((extent) => printed(extent)).join(", ")}]`;
}
