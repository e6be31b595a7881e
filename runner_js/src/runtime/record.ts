import type {
  CompiledFunction,
  CompiledTensor,
  Copy,
  Dispatch,
  Fill,
  Call as HostCall,
  If,
  Instruction,
  Let,
  Loop,
  Read,
} from "../compiled/generated/model";
import { paddedBytes } from "../hal/sizes";
import { bytesOf } from "../program/dtypes";
import { type Expression, evaluate, type Sizes } from "../program/expressions";
import { type Buffers, Flat, type FlatDevice, type Launches, type Region } from "./flat";
import type { ReadyKernel } from "./pipelines";
import { typeAt } from "./values";

/** A function with what its calls have in common. */
export interface ReadyFunction {
  readonly fn: CompiledFunction;
  readonly kernels: readonly ReadyKernel[];
  readonly device: FlatDevice;
  readonly buffers: Buffers;
  /** Of dispatches, what is left of them where other launches ran when the model was loaded. */
  readonly left: ReadonlyMap<Dispatch, Launches>;
}

/** What nothing within a call decides. */
export type PlainStep =
  | { op: "replay"; from: number; to: number }
  | { op: "move"; from: Region; to: Region }
  | { op: "set"; to: Region; value: number };

/** What is left to be interpreted at a call: all of it that its sizes do not decide. */
export type Step =
  | PlainStep
  | { op: "dispatch"; dispatch: Dispatch; known: Sizes }
  | { op: "copy"; copy: Copy; known: Sizes }
  | { op: "let"; instruction: Let; known: Sizes }
  | { op: "read"; instruction: Read; known: Sizes }
  | { op: "call"; instruction: HostCall }
  | { op: "if"; instruction: If; known: Sizes; yes: Step[]; no: Step[] }
  | { op: "loop"; instruction: Loop; known: Sizes; body: Step[] };

/** Turns of loops that are recorded one by one, all together. */
const MOST_UNROLLED = 4096;

/** The code of a function at sizes: what they decide is recorded, to be replayed at each call. */
export class Recording {
  readonly flat: Flat;
  readonly steps: Step[];
  /** All of them are plain ones. */
  readonly plain: boolean;
  /** The GPU has taken all of it once, without an error. */
  proven = false;
  #turns = 0;

  constructor(
    readonly ready: ReadyFunction,
    readonly sizes: Sizes,
    /** Each dispatch is a step of its own, and nothing of them is recorded. */
    private readonly apart = false,
  ) {
    this.flat = new Flat(ready.device, ready.buffers);
    try {
      this.steps = this.#block(ready.fn.code, sizes);
      this.plain = this.steps.every(({ op }) => op === "replay" || op === "move" || op === "set");
      this.flat.seal();
    } catch (cause) {
      this.flat.destroy();
      throw cause;
    }
  }

  /** Where a tensor lies at these sizes. */
  region(index: number): Region {
    const tensor = this.ready.fn.tensors[index] as CompiledTensor;
    const [kind, buffer, offset = 0] = tensor.at;
    const bytes = paddedBytes(bytesOf(typeAt(tensor, this.sizes)));
    return { of: this.ready.buffers[kind], index: buffer, offset, bytes };
  }

  /** All launches of a kernel at sizes that are known, into `flat`. */
  dispatch(dispatch: Dispatch, known: Sizes, flat: Flat): void {
    const { kernel: index, operands, temporaries = [], sizes, node } = dispatch;
    const kernel = this.ready.kernels[index] as ReadyKernel;
    const own = Object.fromEntries(
      kernel.symbols.map(({ name }) => [name, evaluate(sizes?.[name] ?? name, known)]),
    );
    const regions = [...operands, ...temporaries].map((operand) => this.region(operand));
    flat.add(kernel, own, regions, operands.length, node ?? "", this.ready.left.get(dispatch));
  }

  move({ from, to, from_offset = 0, to_offset = 0, bytes = null }: Copy, known: Sizes): Step {
    const [source, target] = [this.region(from), this.region(to)];
    const count = bytes === null ? source.bytes : evaluate(bytes, known);
    const part = (region: Region, offset: Expression) => {
      return { ...region, offset: region.offset + evaluate(offset, known), bytes: count };
    };
    return { op: "move", from: part(source, from_offset), to: part(target, to_offset) };
  }

  #block(code: readonly Instruction[], outer: Sizes): Step[] {
    const steps: Step[] = [];
    let known = outer;
    for (const instruction of code) {
      if (instruction.op === "let" && isKnown(instruction.value, known)) {
        known = { ...known, [instruction.name]: evaluate(instruction.value, known) };
      } else for (const step of this.#one(instruction, known)) append(steps, step);
    }
    return steps;
  }

  #one(instruction: Instruction, known: Sizes): Step[] {
    switch (instruction.op) {
      case "dispatch":
        return this.#recordedDispatch(instruction, known);
      case "copy":
        return copyIsKnown(instruction, known)
          ? [this.move(instruction, known)]
          : [{ op: "copy", copy: instruction, known }];
      case "fill":
        return [this.#set(instruction)];
      case "let":
        return [{ op: "let", instruction, known }];
      case "read":
        return [{ op: "read", instruction, known }];
      case "call":
        return [{ op: "call", instruction }];
      case "if":
        return this.#branch(instruction, known);
      case "loop":
        return this.#loop(instruction, known);
    }
  }

  #set({ tensor, value }: Fill): Step {
    return { op: "set", to: this.region(tensor), value };
  }

  #recordedDispatch(dispatch: Dispatch, known: Sizes): Step[] {
    const { symbols } = this.ready.kernels[dispatch.kernel] as ReadyKernel;
    if (this.apart || !symbols.every(({ name }) => isKnown(dispatch.sizes?.[name] ?? name, known))) {
      return [{ op: "dispatch", dispatch, known }];
    }
    const from = this.flat.length;
    this.dispatch(dispatch, known, this.flat);
    return this.flat.length > from ? [{ op: "replay", from, to: this.flat.length }] : [];
  }

  #branch(instruction: If, known: Sizes): Step[] {
    const { condition, then, else: otherwise = [] } = instruction;
    if (isKnown(condition, known)) return this.#block(evaluate(condition, known) ? then : otherwise, known);
    return [
      {
        op: "if",
        instruction,
        known,
        yes: this.#block(then, known),
        no: this.#block(otherwise, known),
      },
    ];
  }

  #loop(instruction: Loop, known: Sizes): Step[] {
    const { variable, count, until, body } = instruction;
    const turns = isKnown(count, known) ? evaluate(count, known) : Number.POSITIVE_INFINITY;
    const waits = until !== undefined && until !== null;
    if (waits || this.#turns + turns > MOST_UNROLLED) {
      return [{ op: "loop", instruction, known, body: this.#block(body, known) }];
    }
    this.#turns += turns;
    return Array.from({ length: turns }, (_, turn) =>
      this.#block(body, { ...known, [variable]: turn }),
    ).flat();
  }
}

/** Replays that follow each other are one. */
function append(steps: Step[], step: Step): void {
  const last = steps.at(-1);
  if (step.op === "replay" && last?.op === "replay" && last.to === step.from) last.to = step.to;
  else steps.push(step.op === "replay" ? { ...step } : step);
}

function isKnown(expression: Expression, known: Sizes): boolean {
  if (typeof expression === "number") return true;
  if (typeof expression === "string") return Object.hasOwn(known, expression);
  return expression.slice(1).every((operand) => isKnown(operand, known));
}

function copyIsKnown({ from_offset = 0, to_offset = 0, bytes = 0 }: Copy, known: Sizes): boolean {
  return [from_offset, to_offset, bytes ?? 0].every((expression) => isKnown(expression, known));
}
