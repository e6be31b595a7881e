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
    draw = null,
    given = [],
    chunk,
    capacity,
    vocabulary,
    end,
    begin,
    blocks = null,
  } = found;
  for (const [role, name] of Object.entries({ prefill, decode, verify })) {
    if (name === null) continue;
    const where = `generation: ${role}: `;
    if (!Object.hasOwn(functions, name)) throw new ExpressionError(`${where}there is no function ${name}`);
    const of = functions[name] as CompiledFunction;
    for (const input of ["input_ids", "positions", "last"])
      if (!is(port(of.inputs, input, of), "int32"))
        throw new ExpressionError(`${where}${name} has no input ${input} of int32`);
    const table = blocks && port(of.inputs, blocks.input, of);
    const wide = blocks && Math.floor(capacity / blocks.size);
    const rows = port(of.inputs, "positions", of)?.shape ?? [];
    if (
      blocks &&
      (!is(table ?? undefined, "int32") || JSON.stringify(table?.shape) !== JSON.stringify([...rows, wide]))
    )
      throw new ExpressionError(
        `${where}${name} has no input ${blocks.input} of int32 with a row for each token and ${wide} blocks`,
      );
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
  if (draw !== null) checkDraw(draw, vocabulary, functions);
  if (blocks && (capacity % blocks.size || blocks.size * blocks.count < capacity))
    throw new ExpressionError(
      `generation: blocks: ${blocks.count} of ${blocks.size} places do not make room for a text of ${capacity} tokens`,
    );
  if (chunk > capacity)
    throw new ExpressionError(`generation: ${chunk} tokens of a call are more than the ${capacity} that fit`);
  for (const token of begin === null ? end : [...end, begin])
    if (token >= vocabulary)
      throw new ExpressionError(`generation: token ${token} is none of the ${vocabulary} of the vocabulary`);
}

function checkDraw(name: string, vocabulary: number, functions: CompiledModel["functions"]): void {
  if (!Object.hasOwn(functions, name))
    throw new ExpressionError(`generation: draw: there is no function ${name}`);
  const of = functions[name] as CompiledFunction;
  const text = [Math.ceil(vocabulary / 32)];
  const check = (what: "input" | "output", wanted: string, dtype: string, shape: readonly number[]) => {
    const found = port(what === "input" ? of.inputs : of.outputs, wanted, of);
    if (!is(found, dtype) || `${found?.shape}` !== `${shape}`)
      throw new ExpressionError(
        `generation: draw: ${name} has no ${what} ${wanted} ${dtype}[${shape.join(", ")}]`,
      );
  };
  check("input", "logits", "float32", [1, vocabulary]);
  check("input", "seen", "int32", text);
  check("input", "asked", "int32", [9]);
  check("output", "next", "int32", [1, 1]);
  check("output", "drawn", "int32", [1]);
  check("output", "seen", "int32", text);
}

/** That the states have. */
export function allPlaces({ capacity, blocks = null }: Generation): number {
  return blocks ? blocks.size * blocks.count : capacity;
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
