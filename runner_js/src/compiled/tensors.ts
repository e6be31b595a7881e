/** The tensors of a function: their types, and where their bytes lie for all sizes in range. */
import { type Expression, ExpressionError, printed } from "../program/expressions";
import { type Algebra, type Scope, same, shown, type Value } from "./algebra";
import { bound, checkStored, elementsOf, storedBytes } from "./bytes";
import type { CompiledFunction, CompiledModel, CompiledTensor, Encoding, Port } from "./generated/model";
import { within } from "./kernels";
import { bufferOf, type Region } from "./owners";

const MOST_BYTES = 2 ** 40;
const MOST_ELEMENTS = 2 ** 32;

/** One tensor, proven to lie inside its buffer. `bytes` are what is bound: at least 4. */
export interface Placed {
  tensor: CompiledTensor;
  shape: Value[];
  elements: Value;
  stored: Value;
  bytes: Value;
  region: Region;
}

/** Throws an ExpressionError for a tensor that is not inside its buffer, or not what its place is. */
export function placedTensors(
  name: string,
  of: CompiledFunction,
  model: CompiledModel,
  algebra: Algebra,
  symbols: Scope,
): Placed[] {
  const placed: Placed[] = [];
  for (const [number, tensor] of of.tensors.entries()) {
    const found = within(`${name}: tensor ${number} (${tensor.name})`, () =>
      place(tensor, placed, of, model, algebra, symbols),
    );
    placed.push(found);
  }
  checkPorts(name, "input", of.inputs, placed);
  checkPorts(name, "output", of.outputs, placed);
  checkRanges(name, of, algebra, symbols);
  checkWhole(name, placed, model);
  return placed;
}

/** For people: "x, float32[n, 2]". */
export function describe({ tensor }: Placed): string {
  return `${tensor.name}, ${described(tensor)}`;
}

/** A type for people: "float32[n, 2]". */
export function described({ dtype, shape, encoding }: Typed): string {
  return `${dtype}[${shape.map((extent) => printed(extent)).join(", ")}]${encoding ? ` as ${encoding}` : ""}`;
}

interface Typed {
  dtype: string;
  shape: Expression[];
  encoding?: Encoding | null;
}

export const isRoot = ({ region }: Placed, number: number) => region.root === number;

function place(
  tensor: CompiledTensor,
  before: readonly Placed[],
  of: CompiledFunction,
  model: CompiledModel,
  algebra: Algebra,
  symbols: Scope,
): Placed {
  checkStored(tensor.dtype, tensor.encoding);
  const value = (expression: Expression) => algebra.value(expression, symbols);
  const shape = tensor.shape.map(value);
  for (const [axis, extent] of shape.entries()) {
    if (algebra.least(extent) < 0 || algebra.greatest(extent) > MOST_ELEMENTS) {
      const written = printed(tensor.shape[axis] ?? 0);
      throw new ExpressionError(`its extent ${written} may be from ${extent.low} to ${extent.high}`);
    }
  }
  const expression = storedBytes(tensor.shape, tensor.dtype, tensor.encoding);
  const bytes = value(bound(expression));
  const [kind, number, begin = 0] = tensor.at;
  const end = begin + algebra.greatest(bytes);
  const what = `${kind === "weights" ? "weight buffer" : kind} ${number}`;
  const size = bufferBytes(kind, number, of, model);
  if (size === undefined) throw new ExpressionError(`there is no ${what}`);
  if (end > size) throw new ExpressionError(`it may end at ${end}, and ${what} has ${size} bytes`);
  let root = before.length;
  if (tensor.view !== undefined && tensor.view !== null) {
    const view = before[tensor.view];
    if (!view) throw new ExpressionError(`it is a view of tensor ${tensor.view}, which is not before it`);
    if (String(view.tensor.at) !== String(tensor.at) || !same(view.bytes, bytes))
      throw new ExpressionError(`it is a view of ${describe(view)}, and not the same bytes`);
    root = view.region.root;
  }
  const region = { kind, number, begin, end, root };
  return {
    tensor,
    shape,
    elements: value(elementsOf(tensor.shape)),
    stored: value(expression),
    bytes,
    region,
  };
}

/** What fits in a buffer; undefined where there is none. */
function bufferBytes(
  kind: string,
  number: number,
  of: CompiledFunction,
  model: CompiledModel,
): number | undefined {
  if (kind === "weights") return model.weights.buffers[number];
  if (kind === "arena") return of.arena[number];
  const whole = kind === "state" ? model.states : kind === "input" ? of.inputs : of.outputs;
  return number < whole.length ? MOST_BYTES : undefined;
}

/** The least and the greatest element of a dtype of integers. */
export const ELEMENTS: Partial<Record<string, readonly [number, number]>> = {
  int32: [-(2 ** 31), 2 ** 31 - 1],
  uint32: [0, 2 ** 32 - 1],
  int8: [-128, 127],
  uint8: [0, 255],
};

/** The ends of an input's range are elements of its dtype. At some sizes there may be none between them. */
function checkRanges(
  name: string,
  { inputs, tensors }: CompiledFunction,
  algebra: Algebra,
  symbols: Scope,
): void {
  for (const { name: input, tensor, range } of inputs) {
    if (!range) continue;
    const where = `${name}: input ${input}`;
    const { dtype } = tensors[tensor] as CompiledTensor;
    const [least, most] = within(where, () => range.map((end) => algebra.value(end, symbols))) as [
      Value,
      Value,
    ];
    const [low, high] = ELEMENTS[dtype] ?? [0, -1];
    const [first, last] = [algebra.least(least), algebra.greatest(most)];
    if (!(low <= first && first <= last && last <= high))
      throw new ExpressionError(
        `${where} is ${dtype}, and has no range from ${shown(range[0])} to ${shown(range[1])}`,
      );
  }
}

function checkPorts(name: string, kind: string, ports: readonly Port[], placed: readonly Placed[]): void {
  const names = new Set<string>();
  for (const [number, port] of ports.entries()) {
    const where = `${name}: ${kind} ${port.name}`;
    if (names.has(port.name)) throw new ExpressionError(`${where} stands twice`);
    names.add(port.name);
    const region = placed[port.tensor]?.region;
    if (!region) throw new ExpressionError(`${where}: there is no tensor ${port.tensor}`);
    if (bufferOf(region) !== `${kind} ${number}` || region.root !== port.tensor)
      throw new ExpressionError(
        `${where}: tensor ${port.tensor} does not lie at ${kind} ${number}, or is a view`,
      );
  }
}

/** A state, an input, an output is one tensor, and the others are views of it. */
function checkWhole(name: string, placed: readonly Placed[], model: CompiledModel): void {
  const seen = new Set<string>();
  for (const { tensor, region } of placed.filter(isRoot)) {
    if (region.kind === "weights" || region.kind === "arena") continue;
    const where = `${name}: tensor ${region.root} (${tensor.name})`;
    const buffer = bufferOf(region);
    if (seen.has(buffer))
      throw new ExpressionError(`${where}: ${buffer} is another tensor already: make it a view of that`);
    seen.add(buffer);
    const state = region.kind === "state" ? model.states[region.number] : undefined;
    if (state && typeText(state) !== typeText(tensor))
      throw new ExpressionError(`${where}: the state ${state.name} is ${described(state)}`);
  }
}

const typeText = ({ dtype, encoding, shape }: Typed) => JSON.stringify([dtype, encoding ?? null, shape]);
