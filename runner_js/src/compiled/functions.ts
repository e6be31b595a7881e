/** One function of a compiled model: what its host program does, instruction by instruction, for all sizes in range. */
import { type Expression, ExpressionError } from "../program/expressions";
import { type Algebra, type Scope, same, shown, type Value } from "./algebra";
import type { CompiledModel, Copy, Dispatch, Loop, Read } from "./generated/model";
import { type KernelProof, RANGES } from "./kernels";
import { bufferOf, Owners } from "./owners";
import { affect, isWhole, MOST_TURNS, repeat, type Step, stepsOf, turnsOf } from "./steps";
import { describe, described, isRoot, type Placed, placedTensors } from "./tensors";

type Names = Map<string, Value>;

/** It begins with its function and instruction. */
class PlacedError extends ExpressionError {}

/** Throws an ExpressionError, a sentence that begins with the function, for what cannot be shown. */
export function proveFunction(
  name: string,
  model: CompiledModel,
  kernels: readonly KernelProof[],
  algebra: Algebra,
  symbols: Scope,
): void {
  const of = model.functions[name] as CompiledModel["functions"][string];
  const tensors = placedTensors(name, of, model, algebra, symbols);
  const steps = stepsOf(name, of.code, tensors, kernels);
  if (turnsOf(steps) > MOST_TURNS)
    throw new ExpressionError(`${name}: more than ${MOST_TURNS} instructions may run in a call`);
  const states = tensors.filter(isRoot).filter(({ region }) => region.kind === "state");
  const owners = new Owners();
  for (const { region } of states) owners.write(region);
  new Proof(tensors, kernels, algebra).checkBlock(steps, new Map(symbols), owners);
  for (const output of of.outputs)
    if (!owners.holds((tensors[output.tensor] as Placed).region))
      throw new ExpressionError(`${name}: the output ${output.name} is not written on every path`);
  for (const state of states)
    if (!owners.holds(state.region))
      throw new ExpressionError(`${name}: ${describe(state)}, a state, is left undefined`);
}

function placed(step: Step, check: () => void): void {
  try {
    check();
  } catch (cause) {
    if (cause instanceof PlacedError || !(cause instanceof ExpressionError)) throw cause;
    throw new PlacedError(`${step.where}: ${cause.message}`);
  }
}

class Proof {
  constructor(
    private readonly tensors: readonly Placed[],
    private readonly kernels: readonly KernelProof[],
    private readonly algebra: Algebra,
  ) {}

  /** `names` are those around the block, and its own when it ends. */
  checkBlock(steps: readonly Step[], names: Names, owners: Owners): void {
    for (const step of steps) {
      placed(step, () => this.#check(step, names, owners));
    }
  }

  #tensor(number: number): Placed {
    return this.tensors[number] as Placed;
  }

  #check(step: Step, names: Names, owners: Owners): void {
    const found = step.instruction;
    if (found.op === "loop") {
      this.#checkLoop(step, found, names, owners);
      return;
    }
    for (const tensor of step.reads) this.#require(tensor, owners);
    if (found.op === "if") {
      this.algebra.value(found.condition, names);
      const branches = step.blocks.map(() => owners.copy()) as [Owners, Owners];
      for (const [i, block] of step.blocks.entries())
        this.checkBlock(block, new Map(names), branches[i] as Owners);
      branches[0].keep(branches[1]);
      owners.take(branches[0]);
      return;
    }
    if (found.op === "dispatch") {
      this.#checkDispatch(step, found, names);
      this.#checkAccesses(found);
      for (const part of step.parts ?? [])
        placed(part, () => this.#checkDispatch(part, part.instruction as Dispatch, names));
    } else if (found.op === "copy") this.#checkCopy(found, names);
    else if (found.op === "let") addName(found.name, names, this.algebra.value(found.value, names));
    else if (found.op === "read") this.#checkRead(found, names);
    else if (found.op === "call") this.#checkApart(found.outputs, () => true);
    affect(step, owners, this.tensors);
  }

  #checkDispatch(step: Step, found: Dispatch, names: Names): void {
    const proof = this.kernels[found.kernel] as KernelProof;
    const needs = proof.needs(this.#sizes(proof, found, names));
    for (const [number, argument] of proof.kernel.arguments.entries()) {
      const given = this.#tensor(found.operands[number] as number);
      const { tensor, shape } = given;
      const alike =
        tensor.dtype === argument.dtype && (tensor.encoding ?? null) === (argument.encoding ?? null);
      const wanted = needs.shapes[number] ?? [];
      const fits = alike && shape.length === wanted.length;
      if (!fits || !shape.every((extent, axis) => same(extent, wanted[axis] as Value)))
        throw new ExpressionError(
          `operand ${number} is ${describe(given)}, and the kernel takes ${described(argument)}`,
        );
    }
    const temporaries = found.temporaries ?? [];
    for (const [number, tensor] of temporaries.entries()) {
      const given = this.#tensor(tensor);
      if (given.tensor.dtype !== "uint32" || given.tensor.encoding)
        throw new ExpressionError(`temporary ${number} is ${describe(given)}, and must be uint32`);
      if (!(needs.temporaries[number] ?? []).every((count) => this.algebra.fits(count, given.bytes)))
        throw new ExpressionError(`temporary ${number}, ${describe(given)}, may be too small`);
    }
    for (const [output, before] of proof.overwritten) {
      const places = [found.operands[before] as number, found.operands[output] as number] as const;
      if (places[0] === places[1]) continue;
      const names = places.map((tensor) => describe(this.#tensor(tensor))).join(" and ");
      throw new ExpressionError(
        `operands ${before} and ${output} are ${names}, and must be one tensor, which the kernel overwrites`,
      );
    }
    const all = [...found.operands, ...temporaries];
    const written = new Set([...step.writes, ...step.leaves]);
    const befores = new Set(proof.overwritten.values());
    const once = all.filter((_, place) => !befores.has(place));
    this.#checkApart(once, (tensor) => written.has(tensor));
  }

  /** No part is launched alone, so what one reads may lie in the buffer that it writes into. */
  #checkAccesses({ kernel, operands, temporaries = [] }: Dispatch): void {
    const all = [...operands, ...temporaries];
    for (const access of (this.kernels[kernel] as KernelProof).accesses) {
      this.algebra.spend(access.length);
      const bound = new Map<string, boolean>();
      for (const [operand, writes] of access) {
        const buffer = bufferOf(this.#tensor(all[operand] as number).region);
        if ((bound.get(buffer) ?? writes) !== writes)
          throw new ExpressionError(`one launch reads and writes ${buffer}`);
        bound.set(buffer, writes);
      }
    }
  }

  /** Of the kernel's symbols. */
  #sizes({ kernel }: KernelProof, { sizes = {} }: Dispatch, names: Names): Names {
    const known = new Set(kernel.symbols.map(({ name }) => name));
    for (const name of Object.keys(sizes))
      if (!known.has(name)) throw new ExpressionError(`the kernel has no symbol ${name}`);
    const found: Names = new Map();
    for (const { name, minimum, maximum } of kernel.symbols) {
      const given = Object.hasOwn(sizes, name) ? (sizes[name] as Expression) : name;
      const size = this.algebra.value(given, names);
      const [low, high] = [this.algebra.least(size), this.algebra.greatest(size)];
      if (low < minimum || high > maximum)
        throw new ExpressionError(
          `${name} may be from ${low} to ${high}, and the kernel takes ${minimum} to ${maximum}`,
        );
      found.set(name, size);
    }
    return found;
  }

  /** What is written overlaps nothing else. */
  #checkApart(numbers: readonly number[], isWritten: (tensor: number) => boolean): void {
    const found = numbers.map((number) => ({ number, placed: this.#tensor(number) }));
    found.sort(
      ({ placed: { region: a } }, { placed: { region: b } }) =>
        (a.kind < b.kind ? -1 : Number(a.kind > b.kind)) || a.number - b.number || a.begin - b.begin,
    );
    let [buffer, last, lastWritten] = ["", [0, -1], [0, -1]] as [string, Reach, Reach];
    for (const { number, placed } of found) {
      const { begin, end } = placed.region;
      if (bufferOf(placed.region) !== buffer) {
        [last, lastWritten] = [
          [0, -1],
          [0, -1],
        ];
        buffer = bufferOf(placed.region);
      }
      const written = isWritten(number);
      const [reached, other] = written ? last : lastWritten;
      if (begin < reached)
        throw new ExpressionError(
          `${describe(this.#tensor(other))} and ${describe(placed)} overlap, and one of them is written`,
        );
      last = farther(last, [end, number]);
      if (written) lastWritten = farther(lastWritten, [end, number]);
    }
  }

  #checkCopy(found: Copy, names: Names): void {
    const both = [this.#tensor(found.from), this.#tensor(found.to)] as const;
    const [source, target] = [bufferOf(both[0].region), bufferOf(both[1].region)];
    if (source === target) throw new ExpressionError(`both tensors lie in ${source}`);
    const written = [found.from_offset ?? 0, found.to_offset ?? 0];
    const offsets = written.map((offset) => this.algebra.value(offset, names));
    if (isWhole(found)) {
      if (!same(both[0].stored, both[1].stored) || offsets.some(({ low, high }) => low || high))
        throw new ExpressionError(
          `${describe(both[0])} and ${describe(both[1])} have not the same bytes from their beginning on`,
        );
      return;
    }
    const bytes = found.bytes as Expression;
    const parts: [string, Value | undefined][] = [
      ["from_offset", offsets[0]],
      ["to_offset", offsets[1]],
      ["bytes", this.algebra.value(bytes, names)],
    ];
    for (const [what, value] of parts)
      if (value && (this.algebra.least(value) < 0 || !this.algebra.multiple(value, 4)))
        throw new ExpressionError(`${what} may be negative, or no multiple of 4`);
    const ends = written.map((offset) => this.algebra.value(["add", offset, bytes], names));
    for (const [i, end] of ends.entries()) {
      const tensor = both[i] as Placed;
      if (!this.algebra.fits(end, tensor.stored))
        throw new ExpressionError(`it may end behind ${describe(tensor)}`);
    }
  }

  #checkRead(found: Read, names: Names): void {
    const given = this.#tensor(found.tensor);
    const [low, high] = RANGES[given.tensor.dtype] ?? [0, -1];
    const { minimum, maximum } = found;
    if (given.tensor.encoding || !(low <= minimum && minimum <= maximum && maximum <= high))
      throw new ExpressionError(`${describe(given)} is not read as ${minimum} to ${maximum}`);
    const index = this.algebra.value(found.index, names);
    const end = this.algebra.value(["add", found.index, 1], names);
    if (this.algebra.least(index) < 0 || !this.algebra.fits(end, given.elements))
      throw new ExpressionError(`${shown(found.index)} may be no element of ${describe(given)}`);
    addName(found.name, names, this.algebra.name(minimum, maximum));
  }

  #checkLoop(step: Step, found: Loop, names: Names, owners: Owners): void {
    const count = this.algebra.value(found.count, names);
    const [low, high] = [this.algebra.least(count), this.algebra.greatest(count)];
    if (low < 0 || high > found.most)
      throw new ExpressionError(
        `its count may be from ${low} to ${high}, and at most ${found.most} turns are made`,
      );
    const inside = new Map(names);
    addName(found.variable, inside, this.algebra.turn(count));
    repeat(step, owners, this.tensors);
    const after = owners.copy();
    this.checkBlock(step.blocks[0] ?? [], inside, after);
    for (const until of step.reads) {
      const given = this.#tensor(until);
      const { dtype, encoding, shape } = given.tensor;
      if (!Object.hasOwn(RANGES, dtype) || encoding || shape.some((extent) => extent !== 1))
        throw new ExpressionError(
          `${describe(given)} is not one int32 or uint32, which says whether to go on`,
        );
      this.#require(until, after);
    }
  }

  #require(number: number, owners: Owners): void {
    const given = this.#tensor(number);
    const { kind } = given.region;
    if (kind !== "weights" && kind !== "input" && !owners.holds(given.region))
      throw new ExpressionError(
        `${describe(given)} is read, and was not written before on every path, or was overwritten`,
      );
  }
}

/** An end, and the tensor that has it. */
type Reach = readonly [number, number];

function farther(one: Reach, other: Reach): Reach {
  return other[0] > one[0] || (other[0] === one[0] && other[1] > one[1]) ? other : one;
}

function addName(name: string, names: Names, value: Value): void {
  if (names.has(name)) throw new ExpressionError(`the name ${name} stands twice`);
  names.set(name, value);
}
