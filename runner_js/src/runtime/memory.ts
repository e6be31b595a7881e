import { tooLarge } from "../hal/buffers";
import { captureErrors } from "../hal/scopes";
import { paddedBytes } from "../hal/sizes";
import { makeTexture, viewOf } from "../hal/textures";
import { describeBytes, describePair } from "../program/bytes";
import { keysOf, type Texture, textureBytes } from "../program/textures";
import { TapmlError } from "./error";

const DISPOSE = "dispose of models that are not used";

/** GPU buffers of one model, counted: all are destroyed with it. */
export class Allocations {
  readonly #live = new Map<GPUBuffer | GPUTexture, number>();
  readonly #views = new Map<string, GPUTextureView>();
  #total = 0;
  #closed = false;
  /** What has to be done first, for it may use a buffer that is destroyed. */
  beforeDestroy = () => {};

  constructor(
    private readonly device: GPUDevice,
    private readonly name: string,
  ) {}

  /** Bytes of all buffers that live. */
  get bytes(): number {
    return this.#total;
  }

  make(bytes: number, usage: GPUBufferUsageFlags): GPUBuffer {
    if (this.#closed)
      throw new TapmlError("disposed", `${this.name} has given back its memory`, "load it again");
    const size = paddedBytes(bytes);
    const most = this.device.limits.maxBufferSize;
    if (size > most) {
      const fix = "use a device that allows it, or build the model for smaller sizes";
      throw new TapmlError("unsupported", `${this.name} ${tooLarge(size, most)}`, fix);
    }
    const buffer = this.device.createBuffer({ size, usage });
    return this.#counted(buffer, size);
  }

  /** Views of textures of a dispatch, which all dispatches share: the queue keeps their order. */
  textures(wanted: readonly Texture[]): GPUTextureView[] {
    return keysOf(wanted).map((key, i) => {
      const texture = wanted[i] as Texture;
      const view =
        this.#views.get(key) ??
        viewOf(this.#counted(makeTexture(this.device, texture), textureBytes(texture)), texture);
      this.#views.set(key, view);
      return view;
    });
  }

  /** What `make` makes, once the GPU has said that there is memory for it. */
  async made<T>(make: () => T): Promise<T> {
    const before = this.#total;
    const captured = captureErrors(this.device);
    let found: T;
    try {
      found = make();
    } catch (cause) {
      await captured();
      throw cause;
    }
    const error = await captured();
    const bytes = this.#total - before;
    if (!error || error.kind === "device-lost") return found;
    throw new TapmlError(
      "memory",
      `the GPU has no memory for the ${describeBytes(bytes)} that ${this.name} needs (${error.message})`,
      DISPOSE,
    );
  }

  destroy(buffer: GPUBuffer): void {
    const size = this.#live.get(buffer);
    if (size === undefined) return;
    this.beforeDestroy();
    this.#live.delete(buffer);
    this.#total -= size;
    buffer.destroy();
  }

  #counted<T extends GPUBuffer | GPUTexture>(made: T, bytes: number): T {
    this.#live.set(made, bytes);
    this.#total += bytes;
    return made;
  }

  /** Destroys all; there will be no more. */
  close(): void {
    this.beforeDestroy();
    this.#closed = true;
    for (const buffer of this.#live.keys()) buffer.destroy();
    this.#live.clear();
    this.#views.clear();
    this.#total = 0;
  }
}

/** What the budget sees of a model (its weights and arenas), and of each of its sequences (their states). */
export interface Resident {
  readonly name: string;
  /** Bytes that it cannot be without while it is loaded. */
  readonly kept: number;
  /** Bytes that it can be without until the next call that needs them. */
  readonly paged: number;
  pageOut(): void;
}

/** The memory of one device, shared by its models: what was used least recently goes first. */
export class Budget {
  /** In the order of their last use, and how many calls of each are under way. */
  readonly residents = new Map<Resident, number>();
  readonly loaded = new Set<Resident>();
  readonly #waiting: (() => void)[] = [];

  constructor(public limit = Number.POSITIVE_INFINITY) {}

  /**
   * Settles when there is room for what a call needs, and holds it until `release`. Throws a TapmlError of kind "memory"
   * where there can be none.
   */
  async admit(needed: readonly Resident[], signal: AbortSignal): Promise<void> {
    const wanted = sumOf(needed, ({ kept, paged }) => kept + paged);
    for (;;) {
      signal.throwIfAborted();
      const others = [...this.loaded].filter((other) => !needed.includes(other));
      const kept = sumOf(others, (other) => other.kept);
      this.#check(needed, wanted, kept);
      const paged = [...this.residents.keys()].filter((other) => !needed.includes(other));
      if (sumOf(paged, (other) => other.paged) + kept + wanted <= this.limit) break;
      const idle = paged.find((other) => other.paged && !this.residents.get(other));
      if (idle) {
        this.residents.delete(idle);
        idle.pageOut();
      } else await this.#change(signal);
    }
    for (const one of needed) {
      const calls = this.residents.get(one) ?? 0;
      this.residents.delete(one);
      this.residents.set(one, calls + 1);
      this.loaded.add(one);
    }
  }

  release(needed: readonly Resident[]): void {
    for (const one of needed) {
      const calls = this.residents.get(one);
      if (calls) this.residents.set(one, calls - 1);
    }
    this.#wake();
  }

  /** It is disposed of. */
  forget(one: Resident): void {
    this.residents.delete(one);
    this.loaded.delete(one);
    this.#wake();
  }

  #check([one]: readonly Resident[], wanted: number, others: number): void {
    if (wanted + others <= this.limit) return;
    const [needs, has] = describePair(wanted, this.limit);
    const states = others ? `, of which states of other models hold ${describeBytes(others)}` : "";
    const exact = `${wanted} bytes`;
    const all = needs === exact ? exact : `${needs} (${exact})`;
    const sentence = `${one?.name} needs ${all} of GPU memory, the budget is ${has}${states}`;
    throw new TapmlError("memory", sentence, `give load() a larger \`memory\`, or ${DISPOSE}`);
  }

  #change(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        signal.removeEventListener("abort", done);
        resolve();
      };
      signal.addEventListener("abort", done);
      this.#waiting.push(done);
    });
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}

function sumOf(all: readonly Resident[], bytes: (one: Resident) => number): number {
  return all.reduce((total, one) => total + bytes(one), 0);
}
