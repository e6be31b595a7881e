import type { CompiledTensor, Dispatch, Call as HostCall } from "../compiled/generated/model";
import { partsOf } from "../compiled/steps";
import { elementsOf } from "../program/dtypes";
import { ExpressionError, evaluate, extent, type Sizes } from "../program/expressions";
import type { HostModules, TensorData } from "./api";
import type { Encoder } from "./encoder";
import { TapmlError } from "./error";
import { Flat, type Region } from "./flat";
import { hostFunction } from "./modules";
import type { PlainStep, Recording, Step } from "./record";
import { arrayAt, describeTensor, storedBytes, typeAt } from "./values";

/** What a program that waits for the GPU, or for a host module, waits with. */
export interface Waiting {
  /** Submits, and gives the bytes of regions; rejects where nobody waits for the call any more. */
  bytes(regions: readonly Region[]): Promise<Uint8Array[]>;
  /** The same, of anything else. */
  guard<T>(promise: Promise<T>): Promise<T>;
}

/** Sees each dispatch of a recording that keeps them apart. */
export interface Watch {
  /** Before `whole` is encoded, which it is or is a part of; what it gives is called after. */
  dispatch(
    dispatch: Dispatch,
    whole: Dispatch,
    values: Sizes,
    recording: Recording,
    encoder: Encoder,
  ): Promise<(() => void) | null>;
}

/** Dispatches of sizes that come up within a call, kept for the next time. */
const MOST_KEPT = 256;

/** Runs the steps of a recording: all of a call but its inputs and outputs. */
export class Interpreter {
  readonly #flats = new Map<string, Flat>();

  constructor(
    private readonly recording: Recording,
    private readonly modules: HostModules,
    private readonly watch: Watch | null = null,
  ) {}

  /** As that of Flat. */
  rebind(): boolean {
    let changed = this.recording.flat.rebind();
    for (const flat of this.#flats.values()) changed = flat.rebind() || changed;
    return changed;
  }

  /** The same of a recording that is `plain`, which waits for nothing. */
  replay(encoder: Encoder): void {
    for (const step of this.recording.steps) this.#recorded(step, encoder);
  }

  /** Throws a TapmlError of kind "program" where a value is outside its range. */
  async run(encoder: Encoder, waiting: Waiting): Promise<void> {
    try {
      await this.#block(this.recording.steps, this.recording.sizes, encoder, waiting);
    } catch (cause) {
      if (!(cause instanceof ExpressionError)) throw cause;
      throw new TapmlError(
        "program",
        cause.message,
        "build the model again: its program gave a value out of range",
        {
          cause,
        },
      );
    }
  }

  destroy(): void {
    for (const flat of this.#flats.values()) flat.destroy();
    this.#flats.clear();
    this.recording.flat.destroy();
  }

  async #block(steps: readonly Step[], outer: Sizes, encoder: Encoder, waiting: Waiting): Promise<void> {
    let values = outer;
    for (const step of steps) {
      // What is recorded does not wait for a promise.
      const found = this.#step(
        step,
        "known" in step ? { ...step.known, ...values } : values,
        encoder,
        waiting,
      );
      if (found) values = { ...values, ...(await found) };
    }
  }

  /** Whether it is a step that nothing within the call decides: it is encoded then. */
  #recorded(step: Step, encoder: Encoder): step is PlainStep {
    if (step.op === "replay") encoder.replay(this.recording.flat, step.from, step.to);
    else if (step.op === "move") encoder.copy(step.from, step.to);
    else if (step.op === "set") encoder.set(step.to, step.value);
    else return false;
    return true;
  }

  #step(step: Step, values: Sizes, encoder: Encoder, waiting: Waiting): Promise<Sizes> | null {
    if (this.#recorded(step, encoder)) return null;
    switch (step.op) {
      case "dispatch": {
        if (this.watch) return this.#watched(this.watch, step.dispatch, values, encoder);
        const flat = this.#flatOf(step.dispatch, values, encoder);
        encoder.replay(flat, 0, flat.length);
        return null;
      }
      case "copy":
        return this.#step(this.recording.move(step.copy, values), values, encoder, waiting);
      case "let": {
        const { name, value } = step.instruction;
        return Promise.resolve({ [name]: evaluate(value, values) });
      }
      case "read":
        return this.#read(step.instruction, values, waiting);
      case "call":
        return this.#call(step.instruction, waiting);
      case "if": {
        const chosen = evaluate(step.instruction.condition, values) ? step.yes : step.no;
        return this.#block(chosen, values, encoder, waiting).then(() => ({}));
      }
      case "loop":
        return this.#loop(step, values, encoder, waiting);
    }
  }

  async #watched(watch: Watch, dispatch: Dispatch, values: Sizes, encoder: Encoder): Promise<Sizes> {
    const after: ((() => void) | null)[] = [];
    for (const part of partsOf(dispatch))
      after.push(await watch.dispatch(part, dispatch, values, this.recording, encoder));
    const flat = this.#flatOf(dispatch, values, encoder);
    encoder.replay(flat, 0, flat.length);
    for (const copy of after) copy?.();
    return {};
  }

  async #loop(
    { instruction, body }: Extract<Step, { op: "loop" }>,
    values: Sizes,
    encoder: Encoder,
    waiting: Waiting,
  ): Promise<Sizes> {
    const { variable, count, most, until } = instruction;
    const turns = extent(count, values, `the count of the loop of ${variable}`, 0, most);
    for (let turn = 0; turn < turns; turn++) {
      await this.#block(body, { ...values, [variable]: turn }, encoder, waiting);
      if (until === undefined || until === null) continue;
      if ((await this.#element(until, 0, waiting)) !== 0) break;
    }
    return {};
  }

  async #read(
    { name, tensor, index, minimum, maximum, otherwise }: Extract<Step, { op: "read" }>["instruction"],
    values: Sizes,
    waiting: Waiting,
  ): Promise<Sizes> {
    const of = this.#tensor(tensor);
    const elements = elementsOf(typeAt(of, this.recording.sizes).shape);
    const place = extent(index, values, `the place in ${of.name} that ${name} is read from`, 0, elements - 1);
    const found = await this.#element(tensor, place, waiting);
    if (minimum <= found && found <= maximum) return { [name]: found };
    if (otherwise)
      throw new TapmlError(
        "input",
        otherwise,
        "give inputs that need fewer, or carve the model with a larger --loop-limit",
      );
    const sentence = `${name}, read from ${of.name}, is ${found}, and must be from ${minimum} to ${maximum}`;
    throw new TapmlError("program", sentence, "give other inputs, or build the model for a larger range");
  }

  async #element(tensor: number, index: number, waiting: Waiting): Promise<number> {
    const region = this.recording.region(tensor);
    const [bytes] = await waiting.bytes([{ ...region, offset: region.offset + 4 * index, bytes: 4 }]);
    const { buffer, byteOffset } = bytes as Uint8Array;
    const view = new DataView(buffer, byteOffset);
    return this.#tensor(tensor).dtype === "int32" ? view.getInt32(0, true) : view.getUint32(0, true);
  }

  async #call(instruction: HostCall, waiting: Waiting): Promise<Sizes> {
    const { module, function: name, inputs, outputs } = instruction;
    const run = hostFunction(this.modules, module, name);
    const found = await waiting.bytes(inputs.map((index) => this.recording.region(index)));
    const { sizes, ready } = this.recording;
    const arrays = inputs.map((index, i) =>
      arrayAt(found[i] as Uint8Array, typeAt(this.#tensor(index), sizes)),
    );
    const given = await waiting.guard(Promise.resolve(run(arrays)));
    outputs.forEach((index, i) => {
      const { of, index: buffer, offset } = this.recording.region(index);
      const data = this.#checkedOutput(`${module}.${name}`, index, given[i]);
      ready.device.device.queue.writeBuffer(of[buffer] as GPUBuffer, offset, data);
    });
    return {};
  }

  #checkedOutput(from: string, index: number, given: TensorData | undefined): Uint8Array<ArrayBuffer> {
    const tensor = this.#tensor(index);
    const bytes = given && storedBytes(given, tensor, this.recording.sizes);
    if (bytes) return bytes;
    const sentence = `the host function ${from} did not give ${describeTensor(tensor)} for ${tensor.name}`;
    throw new TapmlError("program", sentence, "let it give typed arrays of these types and sizes");
  }

  #flatOf(dispatch: Dispatch, values: Sizes, encoder: Encoder): Flat {
    const { kernels, device, buffers } = this.recording.ready;
    const names = kernels[dispatch.kernel]?.symbols.map(({ name }) =>
      evaluate(dispatch.sizes?.[name] ?? name, values),
    );
    const key = JSON.stringify([dispatch.operands, dispatch.temporaries, dispatch.kernel, names]);
    const known = this.#flats.get(key);
    if (known) return known;
    if (this.#flats.size >= MOST_KEPT) {
      // What is encoded uses them.
      encoder.submit();
      for (const flat of this.#flats.values()) flat.destroy();
      this.#flats.clear();
    }
    const flat = new Flat(device, buffers);
    this.recording.dispatch(dispatch, values, flat);
    flat.seal();
    this.#flats.set(key, flat);
    return flat;
  }

  #tensor(index: number): CompiledTensor {
    return this.recording.ready.fn.tensors[index] as CompiledTensor;
  }
}
