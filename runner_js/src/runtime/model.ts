import type { CompiledFunction, CompiledModel } from "../compiled/generated/model";
import { dispatchesOf } from "../compiled/steps";
import { never, settled, together } from "./abort";
import type {
  Capture,
  CaptureOptions,
  Generation,
  Inputs,
  LoadOptions,
  Model,
  ModelFunction,
  PrepareOptions,
  Profile,
  RunOptions,
  RunResult,
  Sequence,
  TensorFacts,
} from "./api";
import { runCall } from "./call";
import { OperatorCapture } from "./capture";
import { Captures } from "./captures";
import { readyKernels } from "./choose";
import { type Place, placeOf } from "./device";
import { TapmlError } from "./error";
import { DEVICE_LOST_FIX, toTapmlError } from "./errors";
import { Allocations, type Resident } from "./memory";
import { checkOptions } from "./options";
import { chooseVariants, type ReadyKernel } from "./pipelines";
import { teller } from "./progress";
import { checkBuffers } from "./requirements";
import { sizesWith, tokensOf } from "./room";
import { LoadedSequence, type SequenceHost } from "./sequence";
import { arenasOf, Session } from "./session";
import type { Source } from "./source";
import { usedSymbols } from "./used";
import { loadWeights } from "./weights";

export class LoadedModel implements Model, Resident, SequenceHost {
  readonly kept = 0;
  /** Weights and arenas. */
  readonly #least: number;
  /** That of the model's own functions. */
  readonly #own: LoadedSequence;
  readonly #others = new Set<LoadedSequence>();
  private place: Place | null = null;
  private session: Session | null = null;
  private kernels: ReadyKernel[] = [];
  #tail: Promise<unknown> = Promise.resolve();
  /** How much waits for its turn. */
  #waiting = 0;
  #disposed = false;
  readonly #captures: Captures;

  constructor(
    readonly document: CompiledModel,
    private readonly source: Source,
    private readonly options: LoadOptions,
  ) {
    const sum = (bytes: readonly number[]) => bytes.reduce((total, one) => total + one, 0);
    this.#least = sum(document.weights.buffers) + sum(arenasOf(document));
    this.#own = new LoadedSequence(this, true);
    this.#captures = new Captures(document);
  }

  get paged(): number {
    return this.#least + (this.session?.prepared.bytes ?? 0);
  }

  get functions(): Readonly<Record<string, ModelFunction>> {
    return this.#own.functions;
  }

  get name(): string {
    return this.document.name;
  }

  get title(): string {
    return this.document.title;
  }

  get generation(): Generation | null {
    return this.document.generation ?? null;
  }

  get inputs(): readonly TensorFacts[] {
    return this.functions[this.#meant]?.inputs ?? [];
  }

  get outputs(): readonly TensorFacts[] {
    return this.functions[this.#meant]?.outputs ?? [];
  }

  get memory(): { weights: number; arenas: number; states: number; other: number; total: number } {
    const bytes = this.session?.bytes ?? { weights: 0, arenas: 0, states: 0, other: 0 };
    return { ...bytes, total: bytes.weights + bytes.arenas + bytes.states + bytes.other };
  }

  get variants(): Record<string, string> {
    return Object.fromEntries(this.kernels.map(({ kernel, variant }) => [kernel, variant.name]));
  }

  get stateVersion(): number {
    return this.#own.stateVersion;
  }

  get device(): GPUDevice | null {
    return this.place?.gpu.device ?? null;
  }

  async run(inputs: Inputs, options?: RunOptions): Promise<RunResult> {
    return this.#main.run(inputs, options);
  }

  async profile(inputs: Inputs, options?: RunOptions): Promise<Profile> {
    return this.#main.profile(inputs, options);
  }

  async capture(options: CaptureOptions = {}): Promise<Capture> {
    this.#throwIfDisposed();
    checkOptions("capture", options);
    const { function: name = this.#meant, inputs, sizes, signal = never() } = options;
    signal.throwIfAborted();
    if (!inputs) return this.#told(this.#captures.next(name, options, signal));
    const capture = new OperatorCapture(this.document, name, options);
    await this.call(this.#own, name, inputs, { sizes, signal }, false, capture);
    return this.#told(capture.result);
  }

  reset(): Promise<void> {
    return this.#own.reset();
  }

  fork(): Promise<Sequence> {
    return this.#own.fork();
  }

  async sequence(): Promise<Sequence> {
    return this.add(new LoadedSequence(this));
  }

  async tokenizer({ signal = never() }: { signal?: AbortSignal } = {}): Promise<string | null> {
    return this.#attachment(this.document.tokenizer?.file, signal);
  }

  async reload(options: PrepareOptions = {}): Promise<void> {
    checkOptions("reload", options);
    return this.#inTurn(options.signal ?? never(), () => this.prepare(options));
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    // Each is told that it is disposed of.
    this.#captures.abandon();
    this.#release();
  }

  /** Brings it onto a device, which may have been asked for before: weights and kernels at once. */
  async prepare(given: PrepareOptions, asked?: Promise<Place>): Promise<void> {
    const options = { ...this.options, ...given };
    const { signal = never(), memory } = options;
    this.#release();
    const named = await (asked ?? placeOf(options.device));
    const place = named.gpu.lost && !given.device ? await placeOf(undefined) : named;
    const { gpu, budget } = place;
    gpu.throwIfLost();
    const variants = chooseVariants(this.document, gpu);
    checkBuffers(this.document, gpu);
    const before = budget.limit;
    if (memory !== undefined) budget.limit = memory;
    try {
      await budget.admit([this, this.#own], signal);
    } catch (cause) {
      budget.limit = before;
      throw cause;
    }
    const allocations = new Allocations(gpu.device, this.name);
    try {
      this.place = place;
      this.#throwIfDisposed();
      const { modules = {} } = this.options;
      const session = new Session(gpu, allocations, this.document, modules);
      this.session = session;
      await this.#own.allocate(session);
      const told = teller(this.document, options.onProgress);
      await together(signal, (all) => [
        this.#fill(session, all, told.bytes),
        readyKernels(this.document, variants, gpu, this.options, told.kernel, all).then((kernels) => {
          this.kernels = kernels;
        }),
      ]);
      await this.#prepareWeights(session, place);
      this.#throwIfDisposed();
      await this.#own.present(session);
    } catch (cause) {
      allocations.close();
      this.#release();
      throw cause;
    } finally {
      budget.release([this, this.#own]);
    }
  }

  pageOut(): void {
    this.session?.pageOut();
  }

  /** The name of the function that a caller means who says none. */
  get #meant(): string {
    const [first, ...others] = Object.keys(this.functions);
    return first === undefined || others.length ? "main" : first;
  }

  get #main(): ModelFunction {
    const found = this.functions[this.#meant];
    if (found) return found;
    const names = Object.keys(this.functions);
    const fix = `it has ${names.join(", ")}: call model.functions.${names[0]}.run, say`;
    throw new TapmlError("input", `${this.name} has no function main`, fix);
  }

  async call(
    sequence: LoadedSequence,
    name: string,
    inputs: Inputs,
    options: RunOptions,
    profiled: boolean,
    capture: OperatorCapture | null,
  ): Promise<RunResult | Profile> {
    checkOptions(profiled ? "profile" : "run", options);
    const fn = this.document.functions[name] as CompiledFunction;
    const changes = usesStates(fn);
    if (changes) sequence.change();
    const signal = options.signal ?? never();
    const begun = performance.now();
    const makeRoom = () => {
      if (changes) sequence.throwIfUndefined();
      const watched = capture !== null || (!profiled && this.#captures.has(name));
      sequence.want(tokensOf(this.document, name, inputs, watched));
    };
    const work = async (session: Session) => {
      const states = await sequence.present(session);
      const call = {
        model: this.document,
        name,
        fn,
        session,
        states,
        kernels: this.kernels,
        signal,
        begun,
        profiled,
        capture: () => capture ?? (profiled ? null : this.#captures.take(name)),
        program: (kernel: string) => this.#attachment(`operators/${kernel}.json`, signal).catch(() => null),
        withWeights: <T>(read: (session: Session) => Promise<T>) => this.withSession([], signal, read),
      };
      const sizes = sizesWith(this.document, usedSymbols(fn, this.kernels), states.places, options.sizes);
      return runCall(call, inputs, { ...options, sizes }, (why) => {
        if (changes) sequence.break(why);
      });
    };
    const issued = await this.withSession([sequence], signal, work, makeRoom);
    return this.#told(issued.result());
  }

  async withSession<T>(
    sequences: readonly LoadedSequence[],
    signal: AbortSignal,
    work: (session: Session) => T | Promise<T>,
    before = () => {},
  ): Promise<T> {
    this.#throwIfDisposed();
    for (const sequence of sequences) sequence.throwIfDisposed();
    return this.#inTurn(signal, async () => {
      before();
      const needed = [this, this.#own, ...sequences.filter((sequence) => sequence !== this.#own)];
      try {
        const session = await this.#admitted(needed, signal);
        try {
          for (const sequence of sequences) await sequence.present(session);
          return await work(session);
        } finally {
          this.place?.budget.release(needed);
        }
      } finally {
        for (const sequence of sequences) sequence.settle();
      }
    });
  }

  async add(
    sequence: LoadedSequence,
    others: readonly LoadedSequence[] = [],
    begin = () => {},
    before = () => {},
  ): Promise<LoadedSequence> {
    this.#others.add(sequence);
    try {
      await this.withSession([...others, sequence], never(), begin, before);
      return sequence;
    } catch (cause) {
      sequence.dispose();
      throw cause;
    }
  }

  forget(sequence: LoadedSequence): void {
    const given = async () => {
      this.#others.delete(sequence);
      sequence.lose();
      this.place?.budget.forget(sequence);
    };
    // A model that is disposed of has given back those of all its sequences.
    this.#inTurn(never(), given).catch(() => {});
  }

  restore(options: PrepareOptions): Promise<void> {
    return this.#inTurn(options.signal ?? never(), async () => {
      if (!this.session || this.place?.gpu.lost) await this.prepare(options);
    });
  }

  /** The text of a file beside the model; null where it has none of that name. */
  async #attachment(name: string | undefined, signal: AbortSignal): Promise<string | null> {
    const found = this.document.attachments.find((one) => one.name === name);
    if (!found) return null;
    return new TextDecoder().decode(await this.source.file(found.name, found.sha256, signal));
  }

  /** The model with all that calls need, until its budget's `release`. */
  async #admitted(needed: readonly Resident[], signal: AbortSignal): Promise<Session> {
    this.#throwIfDisposed();
    const { place, session } = this;
    if (!place || !session) throw new TapmlError("device-lost", "the model has no device", DEVICE_LOST_FIX);
    place.gpu.throwIfLost();
    await place.budget.admit(needed, signal);
    try {
      this.#throwIfDisposed();
      if (!session.present) {
        await this.#fill(session, signal, () => {});
        await this.#prepareWeights(session, place);
      }
      this.#throwIfDisposed();
      return session;
    } catch (cause) {
      place.budget.release(needed);
      throw cause;
    }
  }

  async #fill(session: Session, signal: AbortSignal, received: (bytes: number) => void): Promise<void> {
    const { gpu, allocations } = session;
    try {
      await together<unknown>(signal, (all) => {
        const weights = allocations.made(() => session.allocate());
        return [
          weights,
          gpu.guard(loadWeights(this.document, this.source, gpu.device, weights, received, all), all),
        ];
      });
      session.present = true;
      this.source.loaded();
    } catch (cause) {
      session.pageOut();
      throw cause;
    }
  }

  /** What only depends on weights is computed now, where there is memory to keep it. */
  async #prepareWeights(session: Session, { gpu, budget }: Place): Promise<void> {
    if (!Object.values(this.document.functions).some((fn) => mayPrepare(fn, this.kernels))) return;
    const module = import("./preparing").catch(() => null);
    const preparing = module.then((found) => found?.prepare(session, this.kernels, budget));
    // It is soon done, and leaves nothing half done.
    session.prepared = (await gpu.guard(preparing, never())) ?? session.prepared;
  }

  /** One after the other: what is called first is done first. An error of one is none of the next. */
  #inTurn<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const before = this.#tail;
    this.#waiting++;
    const turn = (async () => {
      try {
        await settled(before, signal).finally(() => this.#waiting--);
        this.#throwIfDisposed();
        return await work();
      } finally {
        // Nothing follows now that could go to the GPU with it.
        if (!this.#waiting) this.session?.flush();
      }
    })();
    this.#tail = Promise.allSettled([before, turn]);
    return this.#told(turn);
  }

  async #told<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (cause) {
      this.#throwIfDisposed();
      throw toTapmlError(cause);
    }
  }

  #release(): void {
    for (const one of [this.#own, ...this.#others]) {
      this.place?.budget.forget(one);
      one.lose();
    }
    this.place?.budget.forget(this);
    this.session?.pageOut();
    this.session?.allocations.close();
    this.session = null;
    this.place = null;
    this.kernels = [];
  }

  #throwIfDisposed(): void {
    if (this.#disposed) throw new TapmlError("disposed", `${this.name} is disposed of`, "load it again");
  }
}

/** Whether there is a launch before another that is given nothing but weights. */
function mayPrepare({ tensors, code }: CompiledFunction, kernels: readonly ReadyKernel[]): boolean {
  const isWeight = (tensor = -1) => tensors[tensor]?.at[0] === "weights";
  return [...dispatchesOf(code)].some(({ kernel, operands }) =>
    kernels[kernel]?.variant.launches
      .slice(0, -1)
      .some((launch) =>
        launch.operands.every((one) => !("argument" in one) || isWeight(operands[one.argument])),
      ),
  );
}

function usesStates({ tensors }: CompiledFunction): boolean {
  return tensors.some(({ at }) => at[0] === "state");
}
