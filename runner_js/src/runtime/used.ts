import type { CompiledFunction, Instruction } from "../compiled/generated/model";
import type { Expression } from "../program/expressions";
import type { ReadyKernel } from "./pipelines";

const known = new WeakMap<CompiledFunction, ReadonlySet<string>>();

/** Names in the expressions of a function: of the model's symbols, those that a call of it must have sizes of. */
export function usedSymbols(fn: CompiledFunction, kernels: readonly ReadyKernel[]): ReadonlySet<string> {
  const found = known.get(fn) ?? new Set(namesOf(fn, kernels));
  known.set(fn, found);
  return found;
}

function* namesOf(
  { inputs, tensors, code }: CompiledFunction,
  kernels: readonly ReadyKernel[],
): Generator<string> {
  for (const { range } of inputs) for (const end of range ?? []) yield* symbolsIn(end);
  for (const { shape } of tensors) for (const extent of shape) yield* symbolsIn(extent);
  yield* namesIn(code, kernels);
}

function* namesIn(code: readonly Instruction[], kernels: readonly ReadyKernel[]): Generator<string> {
  for (const instruction of code) {
    switch (instruction.op) {
      case "dispatch":
        for (const { name } of kernels[instruction.kernel]?.symbols ?? [])
          yield* symbolsIn(instruction.sizes?.[name] ?? name);
        break;
      case "copy":
        for (const part of [instruction.from_offset, instruction.to_offset, instruction.bytes])
          yield* symbolsIn(part ?? 0);
        break;
      case "let":
        yield* symbolsIn(instruction.value);
        break;
      case "read":
        yield* symbolsIn(instruction.index);
        break;
      case "if":
        yield* symbolsIn(instruction.condition);
        yield* namesIn(instruction.then, kernels);
        yield* namesIn(instruction.else ?? [], kernels);
        break;
      case "loop":
        yield* symbolsIn(instruction.count);
        yield* namesIn(instruction.body, kernels);
        break;
    }
  }
}

function* symbolsIn(expression: Expression): Generator<string> {
  if (typeof expression === "string") yield expression;
  else if (Array.isArray(expression)) for (const operand of expression.slice(1)) yield* symbolsIn(operand);
}
