import type { CompiledFunction, CompiledModel, CompiledTensor } from "../compiled/generated/model";
import { never } from "./abort";
import type {
  Generation,
  Inputs,
  ModelFunction,
  PrepareOptions,
  Profile,
  RunOptions,
  RunResult,
  Sequence,
} from "./api";
import type { OperatorCapture } from "./capture";
import { TapmlError } from "./error";
import type { Resident } from "./memory";
import { checkOptions } from "./options";
import type { Session } from "./session";
import { roomFor, States, statesOf } from "./states";
import { describeTensor } from "./values";

/** The model of a sequence. */
export interface SequenceHost {
  readonly document: CompiledModel;
  call(
    sequence: LoadedSequence,
    name: string,
    inputs: Inputs,
    options: RunOptions,
    profiled: boolean,
    capture: OperatorCapture | null,
  ): Promise<RunResult | Profile>;
  /** In a turn of its own, with room for these on the device; `before` says how much. */
  withSession<T>(
    sequences: readonly LoadedSequence[],
    signal: AbortSignal,
    work: (session: Session) => T | Promise<T>,
    before?: () => void,
  ): Promise<T>;
  /** A sequence more on the device: `begin` is called with room for it and for `others`. */
  add(
    sequence: LoadedSequence,
    others?: readonly LoadedSequence[],
    begin?: () => void,
    before?: () => void,
  ): Promise<LoadedSequence>;
  /** The model is on a device again, whoever asked first. */
  restore(options: PrepareOptions): Promise<void>;
  /** It is given back when the calls before are made. */
  forget(sequence: LoadedSequence): void;
}

/** Calls of a model with states of their own. Those of the model itself are `kept` while it is loaded. */
export class LoadedSequence implements Sequence, Resident {
  readonly functions: Readonly<Record<string, ModelFunction>>;
  #states: States | null = null;
  /** The buffers are there, and nothing is in them. */
  #fresh = false;
  /** Why states are undefined. */
  #undefinedStates = "";
  /** A call may have changed them since they were as before the first. */
  #used = false;
  #changes = 0;
  #disposed = false;
  /** Tokens that the states have room for, or are to have at the next call. */
  #room: number;

  constructor(
    private readonly host: SequenceHost,
    private readonly own = false,
  ) {
    const { functions } = host.document;
    this.#room = this.#least;
    this.functions = Object.fromEntries(
      Object.entries(functions).map(([name, fn]) => [name, this.#function(name, fn)]),
    );
  }

  get name(): string {
    return this.host.document.name;
  }

  get generation(): Generation | null {
    return this.host.document.generation ?? null;
  }

  get kept(): number {
    return this.own ? this.#wanted : 0;
  }

  get paged(): number {
    return this.own ? 0 : this.#wanted;
  }

  get bytes(): number {
    return this.#states?.bytes ?? 0;
  }

  get stateVersion(): number {
    return this.#changes;
  }

  async reset(): Promise<void> {
    this.#changes++;
    await this.host.withSession([this], never(), async (session) => {
      if (this.#room > this.#least) {
        this.#free();
        await this.present(session);
      } else this.#states?.reset();
      this.#defined();
    });
  }

  async reload(options: PrepareOptions = {}): Promise<void> {
    checkOptions("reload", options);
    await this.host.restore(options);
    await this.reset();
  }

  async fork(): Promise<LoadedSequence> {
    const forked = new LoadedSequence(this.host);
    const begin = () => {
      if (this.#states) forked.#states?.copy(this.#states);
      forked.change();
    };
    const makeRoom = () => {
      this.throwIfUndefined();
      forked.want(this.#room);
    };
    return this.host.add(forked, [this], begin, makeRoom);
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.host.forget(this);
  }

  /** Its buffers, as before the first call where they were not there: the weights must be. */
  async present(session: Session): Promise<States> {
    const states = await this.allocate(session);
    if (this.#fresh) states.reset();
    this.#fresh = false;
    if (states.places !== this.#room) await states.grow(this.#room);
    return states;
  }

  /** Its buffers, before the weights are there. */
  async allocate(session: Session): Promise<States> {
    if (!this.#states) {
      this.#states = await session.allocations.made(() => new States(session, this.#room));
      this.#fresh = true;
    }
    return this.#states;
  }

  /** The next call has so many tokens: room for as many again, and then for these, is made where they are more than fit. */
  want(tokens: number): void {
    this.#room = Math.max(this.#room, roomFor(this.host.document, tokens));
  }

  /** No more is wanted than there is. */
  settle(): void {
    this.#room = this.#states?.places ?? this.#least;
  }

  /** Another made room for itself. */
  pageOut(): void {
    if (this.#used) this.#undefinedStates = "they made room for others within the budget of memory";
    this.#release();
  }

  /** The device is given back: states are as before the first call when there is another. */
  lose(): void {
    this.#defined();
    this.#release();
  }

  /** A call is made that may change the states. */
  change(): void {
    this.#changes++;
    this.#used = true;
  }

  break(why: string): void {
    this.#undefinedStates = why;
  }

  throwIfDisposed(): void {
    if (this.#disposed)
      throw new TapmlError("disposed", `the sequence of ${this.name} is disposed of`, "make another one");
  }

  throwIfUndefined(): void {
    if (!this.#undefinedStates) return;
    const sentence = `the states of ${this.name} are undefined: ${this.#undefinedStates}`;
    throw new TapmlError("state", sentence, this.kept ? "call model.reset()" : "call its reset()");
  }

  #defined(): void {
    this.#undefinedStates = "";
    this.#used = false;
  }

  #release(): void {
    this.#changes++;
    this.#free();
  }

  #free(): void {
    this.#states?.destroy();
    this.#states = null;
    this.settle();
  }

  get #least(): number {
    return roomFor(this.host.document, 1);
  }

  /** Bytes of the states with the room that they are to have. */
  get #wanted(): number {
    return statesOf(this.host.document, this.#room).reduce((total, one) => total + one, 0);
  }

  #function(name: string, fn: CompiledFunction): ModelFunction {
    const facts = (ports: CompiledFunction["inputs"]) =>
      ports.map((port) => {
        const { dtype, shape } = fn.tensors[port.tensor] as CompiledTensor;
        // Not enumerable: what is sent to a worker is cloned, and functions cannot be.
        return Object.defineProperty({ name: port.name, dtype, shape }, "toString", {
          value: () => describeTensor({ dtype, shape }),
        });
      });
    const call = <T>(inputs: Inputs, options: RunOptions, profiled: boolean) =>
      this.host.call(this, name, inputs, options, profiled, null) as Promise<T>;
    return {
      inputs: facts(fn.inputs),
      outputs: facts(fn.outputs),
      run: (inputs, options = {}) => call<RunResult>(inputs ?? {}, options, false),
      profile: (inputs, options = {}) => call<Profile>(inputs ?? {}, options, true),
    };
  }
}
