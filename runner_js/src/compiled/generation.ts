/** That functions generate tokens as a model says. The twin of backend/tapml/program/generation.py. */
import { ExpressionError, printed } from "../program/expressions";
import type { CompiledFunction, CompiledModel, CompiledTensor, Generation } from "./generated/model";

/** Throws an ExpressionError. */
export function checkGeneration(found: Generation, { functions }: CompiledModel): void {
  const {
    prefill,
    decode,
    verify = null,
    next = null,
    given = [],
    chunk,
    capacity,
    vocabulary,
    end,
    begin,
  } = found;
  for (const [role, name] of Object.entries({ prefill, decode, verify })) {
    if (name === null) continue;
    const where = `generation: ${role}: `;
    if (!Object.hasOwn(functions, name)) throw new ExpressionError(`${where}there is no function ${name}`);
    const of = functions[name] as CompiledFunction;
    for (const input of ["input_ids", "positions", "last"])
      if (!is(port(of.inputs, input, of), "int32"))
        throw new ExpressionError(`${where}${name} has no input ${input} of int32`);
    for (const input of given)
      if (!port(of.inputs, input, of)) throw new ExpressionError(`${where}${name} has no input ${input}`);
    const entries = port(of.inputs, "last", of)?.shape ?? [];
    if (role === "verify" && `${entries}` === "1")
      throw new ExpressionError(`${where}${name} gives the logits of one token, and never of several`);
    const logits = port(of.outputs, "logits", of);
    const wanted = [...entries, vocabulary];
    if (
      entries.length !== 1 ||
      !is(logits, "float32") ||
      JSON.stringify(logits?.shape) !== JSON.stringify(wanted)
    )
      throw new ExpressionError(
        `${where}${name} has no output logits float32[${wanted.map((extent) => printed(extent)).join(", ")}]`,
      );
    if (next === null) continue;
    const chosen = port(of.outputs, next, of);
    if (!is(chosen, "int32") || JSON.stringify(chosen?.shape) !== JSON.stringify(entries))
      throw new ExpressionError(
        `${where}${name} has no output ${next} int32[${entries.map((extent) => printed(extent)).join(", ")}]`,
      );
  }
  if (chunk > capacity)
    throw new ExpressionError(`generation: ${chunk} tokens of a call are more than the ${capacity} that fit`);
  for (const token of begin === null ? end : [...end, begin])
    if (token >= vocabulary)
      throw new ExpressionError(`generation: token ${token} is none of the ${vocabulary} of the vocabulary`);
}

function port(
  ports: readonly { name: string; tensor: number }[],
  wanted: string,
  { tensors }: CompiledFunction,
): CompiledTensor | undefined {
  const found = ports.find(({ name }) => name === wanted);
  return found && tensors[found.tensor];
}

function is(tensor: CompiledTensor | undefined, dtype: string): boolean {
  return tensor?.dtype === dtype && !tensor.encoding;
}
