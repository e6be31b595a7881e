/** A function's code as steps: instructions with their numbers, and which tensors each reads and writes. */
import { ExpressionError } from "../program/expressions";
import type { Copy, Dispatch, Instruction } from "./generated/model";
import type { KernelProof } from "./kernels";
import type { Owners } from "./owners";
import type { Placed } from "./tensors";

export const MOST_TURNS = 2 ** 20;
const MOST_INSTRUCTIONS = 2 ** 16;
const MOST_BLOCKS = 1000;
const DEEPEST = 16;

/** An instruction, and tensors by their number: what it reads, what it writes whole, what it leaves undefined. */
export interface Step {
  where: string;
  instruction: Instruction;
  reads: readonly number[];
  writes: readonly number[];
  leaves: readonly number[];
  blocks: readonly (readonly Step[])[];
  /** Of a dispatch that does the work of several. */
  parts?: readonly Step[];
}

/** Instructions that may run, with those of loops as often as they may. */
export function turnsOf(block: readonly Step[]): number {
  let turns = 0;
  for (const { instruction, blocks } of block) {
    const inside = blocks.reduce((sum, inner) => sum + turnsOf(inner), 0);
    turns += 1 + inside * (instruction.op === "loop" ? instruction.most : 1);
  }
  return turns;
}

/** What holds behind a step, of what held before it. */
export function affect(step: Step, owners: Owners, tensors: readonly Placed[]): void {
  const of = (number: number) => (tensors[number] as Placed).region;
  for (const tensor of step.leaves) owners.destroy(of(tensor));
  for (const tensor of step.writes) owners.write(of(tensor));
  if (step.instruction.op === "loop") repeat(step, owners, tensors);
  else if (step.blocks.length) {
    const [then, otherwise] = step.blocks.map((block) => after(block, owners, tensors)) as [Owners, Owners];
    then.keep(otherwise);
    owners.take(then);
  }
}

/** Of a loop: what holds before each turn, and behind the last: there may be none. */
export function repeat({ blocks }: Step, owners: Owners, tensors: readonly Placed[]): void {
  owners.keep(after(blocks[0] ?? [], owners, tensors));
}

function after(block: readonly Step[], owners: Owners, tensors: readonly Placed[]): Owners {
  const found = owners.copy();
  for (const step of block) affect(step, found, tensors);
  return found;
}

/** Throws an ExpressionError for a kernel, a tensor or a number of operands that there is not, and for too much. */
export function stepsOf(
  name: string,
  code: readonly Instruction[],
  tensors: readonly Placed[],
  kernels: readonly KernelProof[],
): Step[] {
  let number = 0;
  let blocks = 0;

  const block = (of: readonly Instruction[], depth: number): Step[] => {
    if (depth > DEEPEST) throw new ExpressionError(`${name}: blocks stand more than ${DEEPEST} deep`);
    if (++blocks > MOST_BLOCKS)
      throw new ExpressionError(`${name}: there are more than ${MOST_BLOCKS} blocks`);
    return of.map((instruction) => step(instruction, depth));
  };

  const step = (found: Instruction, depth: number): Step => {
    const where = `${name}: instruction ${number} (${title(found)})`;
    if (++number > MOST_INSTRUCTIONS)
      throw new ExpressionError(`${name}: there are more than ${MOST_INSTRUCTIONS} instructions`);
    const made = (
      reads: readonly number[],
      writes: readonly number[] = [],
      leaves: readonly number[] = [],
    ) => {
      check(where, reads, false);
      check(where, [...writes, ...leaves], true);
      return { where, instruction: found, reads, writes, leaves, blocks: [] as Step[][] };
    };
    switch (found.op) {
      case "dispatch": {
        const whole = made(...operands(where, found));
        return { ...whole, parts: parts(where, found, whole) };
      }
      case "copy":
        check(where, [found.to], true);
        return isWhole(found) ? made([found.from], [found.to]) : made([found.from, found.to]);
      case "fill":
        return made([], [found.tensor]);
      case "read":
        return made([found.tensor]);
      case "call":
        return made(found.inputs, found.outputs);
      case "if":
        return { ...made([]), blocks: [block(found.then, depth + 1), block(found.else ?? [], depth + 1)] };
      case "loop": {
        const { until } = found;
        const read = made(until === undefined || until === null ? [] : [until]);
        return { ...read, blocks: [block(found.body, depth + 1)] };
      }
      default:
        return made([]);
    }
  };

  const parts = (where: string, whole: Dispatch, step: Pick<Step, "reads" | "writes">): Step[] => {
    if (!whole.parts?.length) return [];
    // What the dispatch reads, and what the parts before write.
    const known = new Set(step.reads);
    const found = partsOf(whole).map((part) => {
      const inside = `${where}: part ${title(part)}`;
      const [reads, writes, leaves] = operands(inside, part);
      check(inside, reads, false);
      check(inside, [...writes, ...leaves], true);
      if (whole.temporaries?.length || Object.keys(whole.sizes ?? {}).length || leaves.length)
        throw new ExpressionError(
          `${where}: it has parts, and temporaries or sizes or what is left undefined`,
        );
      if (!reads.every((tensor) => known.has(tensor)))
        throw new ExpressionError(
          `${inside}: it reads what the dispatch does not, and no part before it writes`,
        );
      for (const tensor of writes) known.add(tensor);
      return { where: inside, instruction: part, reads, writes, leaves, blocks: [] };
    });
    const sorted = (numbers: readonly number[]) => String([...numbers].sort((a, b) => a - b));
    if (sorted(found.flatMap((part) => part.writes)) !== sorted(step.writes))
      throw new ExpressionError(`${where}: its parts do not write what it writes, each once`);
    return found;
  };

  const operands = (where: string, found: Dispatch): [number[], number[], number[]] => {
    const proof = kernels[found.kernel];
    if (!proof) throw new ExpressionError(`${where}: there is no kernel ${found.kernel}`);
    const arguments_ = proof.kernel.arguments;
    const temporaries = found.temporaries ?? [];
    if (found.operands.length !== arguments_.length)
      throw new ExpressionError(
        `${where}: ${found.operands.length} operands for ${arguments_.length} arguments`,
      );
    if (temporaries.length !== proof.temporaries)
      throw new ExpressionError(`${where}: ${temporaries.length} temporaries for ${proof.temporaries}`);
    const isOutput = (_: number, i: number) => arguments_[i]?.role === "output";
    const reads = found.operands.filter((tensor, i) => !isOutput(tensor, i));
    // An input that a launch writes into.
    const spoilt = found.operands.filter((tensor, i) => !isOutput(tensor, i) && proof.written.has(i));
    return [reads, found.operands.filter(isOutput), [...spoilt, ...temporaries]];
  };

  const check = (where: string, numbers: readonly number[], written: boolean) => {
    for (const tensor of numbers) {
      const found = tensors[tensor];
      if (!found) throw new ExpressionError(`${where}: there is no tensor ${tensor}`);
      const { kind } = found.region;
      if (written && (kind === "weights" || kind === "input")) {
        const what = kind === "weights" ? "a weight" : "an input";
        throw new ExpressionError(`${where}: ${found.tensor.name} is ${what}, which nothing may write`);
      }
    }
  };

  const title = (found: Instruction): string => {
    const kernel = found.op === "dispatch" && kernels[found.kernel]?.kernel.kernel;
    if (kernel) return `dispatch ${kernel}`;
    return found.op === "call" ? `call ${found.module}.${found.function}` : found.op;
  };

  return block(code, 0);
}

/** Those inside branches and loops, too, once. */
export function* dispatchesOf(code: readonly Instruction[]): Generator<Dispatch> {
  for (const instruction of code) {
    if (instruction.op === "dispatch") yield instruction;
    else if (instruction.op === "loop") yield* dispatchesOf(instruction.body);
    else if (instruction.op === "if") {
      yield* dispatchesOf(instruction.then);
      yield* dispatchesOf(instruction.else ?? []);
    }
  }
}

/** The dispatches whose work it does: itself, where it has no parts. */
export function partsOf(dispatch: Dispatch): Dispatch[] {
  const { parts = [] } = dispatch;
  return parts.length ? parts.map((part) => ({ op: "dispatch", ...part })) : [dispatch];
}

/** A copy of all bytes. */
export function isWhole({ bytes }: Copy): boolean {
  return bytes === undefined || bytes === null;
}
