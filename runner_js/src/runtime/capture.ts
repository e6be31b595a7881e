import type { CompiledFunction, CompiledModel, CompiledTensor, Dispatch } from "../compiled/generated/model";
import { dispatchesOf, partsOf } from "../compiled/steps";
import { bytesOf } from "../program/dtypes";
import { evaluate, type Sizes } from "../program/expressions";
import type { TensorType } from "../protocol/messages";
import type { Capture, CaptureOptions } from "./api";
import { type CapturedCall, type CapturedTensor, captureFile } from "./capture_file";
import { readWeights, type WeightBytes, type WeightPlace } from "./capture_weights";
import { mapped } from "./download";
import type { Encoder } from "./encoder";
import { TapmlError } from "./error";
import type { Region } from "./flat";
import type { Watch } from "./interpret";
import type { ReadyKernel } from "./pipelines";
import type { Recording } from "./record";
import { type Session, STAGING_USAGE } from "./session";
import { digestOf } from "./source";
import { typeAt } from "./values";

const MOST_BYTES = 64 << 20;
/** Of a buffer that copies go to, unless one call takes more: few are made, and few mapped. */
const CHUNK_BYTES = 8 << 20;
/** Operator calls in a file; `tapml import` takes no more. */
const MOST_CALLS = 1000;
const COPY_SRC = 0x4; // GPUBufferUsage.COPY_SRC

/** What of the model a capture asks for after the call. */
export interface CaptureSource {
  /** The text of an operator's program; null where it cannot be had. */
  program(kernel: string): Promise<string | null>;
  /** What `read` gives, of a session that has the weights. */
  withWeights<T>(read: (session: Session) => Promise<T>): Promise<T>;
}

/** A buffer that copies go to, and how many of its bytes are taken. */
interface Chunk {
  buffer: GPUBuffer;
  used: number;
}

/** Where a tensor is: copied, or a weight, which nothing changes. */
interface Copied {
  chunk: Chunk | null;
  offset: number;
  name: string;
  type: TensorType;
  weight: string | null;
}

interface Taken {
  dispatch: Dispatch;
  kernel: ReadyKernel;
  sizes: Sizes;
  operands: Copied[];
}

/** One call whose operators' inputs and outputs are copied out of the arenas as it runs. */
export class OperatorCapture implements Watch {
  readonly result: Promise<Capture>;
  #settle!: { resolve: (found: Capture) => void; reject: (cause: unknown) => void };
  readonly #chunks: Chunk[] = [];
  readonly #taken: Taken[] = [];
  /** Of the calls that are taken, by place. */
  readonly #weights = new Map<string, WeightPlace>();
  /** Weights that are counted, by place. */
  readonly #counted = new Set<string>();
  readonly #why = new Set<string>();
  #leftOut = 0;
  #bytes = 0;
  /** What `maxBytes` left out. */
  #beyond = 0;
  /** One is taken wherever it passes a whole number. */
  #turn = Math.random();
  #session: Session | null = null;
  readonly #chosen: ReadonlySet<string> | null;
  readonly #share: number;
  readonly #mostBytes: number;

  /** Throws a TapmlError of kind "input" for options that are none, or that choose nothing. */
  constructor(
    private readonly model: CompiledModel,
    readonly name: string,
    private readonly options: CaptureOptions,
  ) {
    const { nodes, sample = 1, maxBytes = MOST_BYTES } = options;
    if (!(sample > 0 && sample <= 1))
      throw new TapmlError("input", `sample is ${sample}`, "give a share above 0 and at most 1");
    if (!(maxBytes > 0)) throw new TapmlError("input", `maxBytes is ${maxBytes}`, "give a number of bytes");
    const fn = Object.hasOwn(model.functions, name) ? model.functions[name] : undefined;
    if (!fn) {
      const names = Object.keys(model.functions).join(", ");
      throw new TapmlError("input", `${model.name} has no function ${name}`, `there are ${names}`);
    }
    this.#chosen = nodes ? checkedNodes(model, name, fn, nodes) : null;
    this.#share = sample;
    this.#mostBytes = maxBytes;
    this.result = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    // Whoever asked is told; nobody needs to listen before.
    this.result.catch(() => {});
  }

  /** A call begins: this is the one. */
  begin(session: Session): void {
    this.#session = session;
  }

  /** Nobody waits for it any more. What its call encodes it still may copy to. */
  abandon(cause: unknown): void {
    this.#settle.reject(cause);
  }

  /** Its call has ended without giving anything. */
  fail(cause: unknown): void {
    this.#settle.reject(cause);
    this.#release();
  }

  async dispatch(
    dispatch: Dispatch,
    whole: Dispatch,
    values: Sizes,
    recording: Recording,
    encoder: Encoder,
  ): Promise<(() => void) | null> {
    const { kernels, fn } = recording.ready;
    const kernel = kernels[dispatch.kernel] as ReadyKernel;
    const called = [dispatch, whole].flatMap(({ node, kernel }) => [
      node ?? "",
      kernels[kernel]?.kernel ?? "",
    ]);
    if (this.#chosen && !called.some((name) => this.#chosen?.has(name))) return null;
    const before = Math.floor(this.#turn);
    this.#turn += this.#share;
    if (Math.floor(this.#turn) === before) return null;
    const regions = dispatch.operands.map((index) => recording.region(index));
    const tensors = dispatch.operands.map((index) => fn.tensors[index] as CompiledTensor);
    const chunk = await this.#room(regions, tensors);
    if (!chunk) return null;
    const inputs = this.#inputsOf(dispatch);
    const copy = (i: number): Copied => {
      const [region, tensor] = [regions[i] as Region, tensors[i] as CompiledTensor];
      const { name } = tensor;
      const type = typeAt(tensor, recording.sizes);
      const weight = weightOf(tensor, region);
      if (weight !== null) {
        const { index, offset, bytes } = region;
        this.#weights.set(weight, { buffer: index, offset, bytes, type });
        return { chunk: null, offset, name, type, weight };
      }
      encoder.copyOut(region, chunk.buffer, chunk.used);
      const copied = { chunk, offset: chunk.used, name, type, weight };
      chunk.used += region.bytes;
      return copied;
    };
    const sizes = Object.fromEntries(
      kernel.symbols.map(({ name }) => [name, evaluate(dispatch.sizes?.[name] ?? name, values)]),
    );
    // Inputs before the outputs, whose bytes one that is not read again may have next; what another part of the whole
    // writes is there behind it.
    const later = this.#handedOn(whole);
    const isLater = (i: number) => i >= inputs || later.has(dispatch.operands[i] as number);
    const copied = regions.map((_, i) => (isLater(i) ? null : copy(i)));
    return () => {
      const operands = copied.map((found, i) => found ?? copy(i));
      this.#taken.push({ dispatch, kernel, sizes, operands });
    };
  }

  /** Once what was encoded is submitted and found right. */
  async collect(sizes: Sizes, { program, withWeights }: CaptureSource, signal: AbortSignal): Promise<void> {
    const { model, options } = this;
    const session = this.#session;
    if (!session) return;
    try {
      const why = [...this.#why];
      if (this.#beyond) {
        const enough = this.#bytes + this.#beyond;
        why.unshift(`they take more than ${this.#mostBytes} bytes: maxBytes of ${enough} would be enough`);
      }
      if (!this.#taken.length) {
        const reason =
          why.join("; ") || "the call runs none of those that were chosen, or the sample took none";
        throw new TapmlError(
          "input",
          `nothing was captured: ${reason}`,
          "choose other nodes, or a larger sample or maxBytes",
        );
      }
      const used = this.#chunks.filter((chunk) => chunk.used);
      const found = await Promise.all(
        used.map(({ buffer, used }) => mapped(session.gpu, buffer, used, signal)),
      );
      const all = new Map(used.map((chunk, i) => [chunk, found[i] as ArrayBuffer]));
      const places = [...this.#weights.values()];
      const kept = options.weights ?? false;
      const read = places.length
        ? await withWeights((session) => readWeights(session, places, kept, signal))
        : [];
      const weights = new Map([...this.#weights.keys()].map((place, i) => [place, read[i] as WeightBytes]));
      const tensor = async ({ chunk, offset, name, type, weight }: Copied): Promise<CapturedTensor> => {
        if (weight !== null || !chunk)
          return { name, type, weight: true, ...(weights.get(weight ?? "") as WeightBytes) };
        const copy = (all.get(chunk) as ArrayBuffer).slice(offset, offset + bytesOf(type));
        const data = new Uint8Array(copy);
        return { name, type, weight: false, digest: await digestOf(data), data };
      };
      const calls = await Promise.all(
        this.#taken.map(async ({ dispatch, kernel, sizes, operands }): Promise<CapturedCall> => {
          const inputs = this.#inputsOf(dispatch);
          return {
            node: dispatch.node ?? "",
            kernel: dispatch.kernel,
            variant: kernel.variant.name,
            sizes,
            inputs: await Promise.all(operands.slice(0, inputs).map(tensor)),
            outputs: await Promise.all(operands.slice(inputs).map(tensor)),
          };
        }),
      );
      const { capabilities } = session.gpu;
      const facts = { model, function: this.name, sizes, capabilities, leftOut: this.#leftOut, why };
      const file = await captureFile({ ...facts, calls, program });
      const operators = calls.map(({ node, kernel, inputs, outputs }) => ({
        kernel: model.kernels[kernel]?.kernel ?? "",
        node,
        bytes: [...inputs, ...outputs].reduce((sum, { type }) => sum + bytesOf(type), 0),
      }));
      this.#settle.resolve({ file, operators, leftOut: this.#leftOut, why });
    } catch (cause) {
      this.#settle.reject(cause);
    } finally {
      this.#release();
    }
  }

  /** The tensors that a dispatch writes, and does not read: a part that is given one has it of another part. */
  #handedOn(whole: Dispatch): ReadonlySet<number> {
    const inputs = this.#inputsOf(whole);
    const read = new Set(whole.operands.slice(0, inputs));
    return new Set(whole.operands.slice(inputs).filter((tensor) => !read.has(tensor)));
  }

  #inputsOf({ kernel }: Dispatch): number {
    return (this.model.kernels[kernel]?.arguments ?? []).filter(({ role }) => role === "input").length;
  }

  /** Where a call's tensors are copied to; null where it is left out, for a reason that is noted. */
  async #room(regions: readonly Region[], tensors: readonly CompiledTensor[]): Promise<Chunk | null> {
    const unreadable = regions.findIndex(({ of, index }) => !((of[index] as GPUBuffer).usage & COPY_SRC));
    if (unreadable >= 0) {
      const { name } = tensors[unreadable] as CompiledTensor;
      return this.#without(`the GPUBuffer of ${name} cannot be copied: make it with COPY_SRC`);
    }
    if (this.#taken.length >= MOST_CALLS) return this.#without(`a capture has at most ${MOST_CALLS} calls`);
    const places = regions.map((region, i) => weightOf(tensors[i] as CompiledTensor, region));
    const sum = (bytes: number, { bytes: more }: Region) => bytes + more;
    const copies = regions.filter((_, i) => places[i] === null).reduce(sum, 0);
    const bytes = copies + (this.options.weights ? this.#uncounted(regions, places) : 0);
    if (this.#bytes + bytes > this.#mostBytes) {
      this.#beyond += bytes;
      this.#leftOut++;
      return null;
    }
    let chunk = this.#chunks.at(-1);
    if (!chunk || chunk.used + copies > chunk.buffer.size) {
      const made = await this.#chunk(Math.max(copies, Math.min(CHUNK_BYTES, this.#mostBytes - this.#bytes)));
      if (!made) return null;
      chunk = made;
      this.#chunks.push(chunk);
    }
    for (const place of places) if (place !== null) this.#counted.add(place);
    this.#bytes += bytes;
    return chunk;
  }

  /** Bytes of the weights among them that no call before had, each once. */
  #uncounted(regions: readonly Region[], places: readonly (string | null)[]): number {
    const found = new Map<string, number>();
    for (const [i, { bytes }] of regions.entries()) {
      const place = places[i] ?? null;
      if (place !== null && !this.#counted.has(place)) found.set(place, bytes);
    }
    return [...found.values()].reduce((sum, bytes) => sum + bytes, 0);
  }

  /** The call goes on without the copies that the GPU has no memory for. */
  async #chunk(bytes: number): Promise<Chunk | null> {
    const { allocations } = this.#session as Session;
    let buffer: GPUBuffer | null = null;
    const make = () => {
      buffer = allocations.make(bytes, STAGING_USAGE);
      return buffer;
    };
    try {
      return { buffer: await allocations.made(make), used: 0 };
    } catch (cause) {
      if (buffer) allocations.destroy(buffer);
      if (!(cause instanceof TapmlError) || cause.kind === "disposed") throw cause;
      return this.#without(cause.sentence);
    }
  }

  #without(why: string): null {
    this.#leftOut++;
    this.#why.add(why);
    return null;
  }

  #release(): void {
    for (const { buffer } of this.#chunks.splice(0)) this.#session?.allocations.destroy(buffer);
    this.#taken.length = 0;
    this.#weights.clear();
  }
}

/** The place of a weight; null for another tensor. */
function weightOf({ at, dtype, shape, encoding }: CompiledTensor, { bytes }: Region): string | null {
  return at[0] === "weights" ? JSON.stringify([at, bytes, dtype, shape, encoding]) : null;
}

/** Throws for what is neither a node of the function nor a kernel that it runs. */
function checkedNodes(
  { kernels }: CompiledModel,
  name: string,
  fn: CompiledFunction,
  nodes: readonly string[],
): ReadonlySet<string> {
  const there = new Set<string>();
  for (const dispatch of dispatchesOf(fn.code))
    for (const { node, kernel } of [dispatch, ...partsOf(dispatch)]) {
      if (node) there.add(node);
      there.add(kernels[kernel]?.kernel ?? "");
    }
  const unknown = nodes.find((node) => !there.has(node));
  if (unknown === undefined && nodes.length) return new Set(nodes);
  const what = unknown === undefined ? "nodes is empty" : `${name} has no node or kernel ${unknown}`;
  throw new TapmlError("input", what, "`model.profile` gives the nodes and kernels of a call");
}
