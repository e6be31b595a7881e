/** The types of @tapml/runtime, complete in this file: scripts/runtime.mjs makes the package's types of it. */

/** An integer, a symbol's name, or [operation, a, b]. */
export type Extent = number | string | Extent[];
export type DataType = "float32" | "float16" | "int32" | "uint32" | "int8" | "uint8" | "bool";

/** Float16Array, where the browser has it. */
export interface HalfArray extends ArrayBufferView {
  readonly length: number;
  readonly [Symbol.toStringTag]: "Float16Array";
  [index: number]: number;
}
/** Of float16, a Float16Array, or its bit patterns as a Uint16Array; of bool, a Uint8Array of 0 and 1. */
export type TensorData =
  | Float32Array
  | Int32Array
  | Uint32Array
  | Int8Array
  | Uint8Array
  | Uint16Array
  | HalfArray;
/** Integers of another width are taken where all of them fit, other floating-point numbers are rounded. */
export type InputData = TensorData | Float64Array | Int16Array | BigInt64Array | BigUint64Array;
/** A tensor by its elements, row by row, or by the bytes of a GPUBuffer; `shape` where sizes do not follow without it. */
export type TensorInput =
  | InputData
  | GPUBuffer
  | { data: InputData | GPUBuffer; shape: readonly number[] }
  | LeftOutput;
/** What the last call of the model that has an output of that name left in it: no one waits for it to be read. */
export interface LeftOutput {
  readonly output: string;
}
export type Inputs = Readonly<Record<string, TensorInput>>;

/** Given the elements of the inputs, the elements of the outputs. */
export type HostFunction = (inputs: TensorData[]) => TensorData[] | Promise<TensorData[]>;
/** Functions of the page that a model's program calls, by module and name. */
export type HostModules = Readonly<Record<string, Readonly<Record<string, HostFunction>>>>;

/** How far loading is. */
export interface LoadProgress {
  /** Of weights, from the network or a cache. */
  bytes: number;
  totalBytes: number;
  kernels: number;
  totalKernels: number;
}

export interface PrepareOptions {
  /** One of the page's own; without it all models share one. */
  device?: GPUDevice | { readonly device: GPUDevice } | undefined;
  /** Bytes of GPU memory that all models of the device may take together. */
  memory?: number | undefined;
  onProgress?: ((progress: LoadProgress) => void) | undefined;
  signal?: AbortSignal | undefined;
}

export interface LoadOptions extends PrepareOptions {
  /** Where a kernel is not validated on this browser: "warn" if nothing is said. */
  unvalidated?: "refuse" | "warn" | "ignore" | undefined;
  /** Functions that the model's program calls. */
  modules?: HostModules | undefined;
  /** In place of the browser's. */
  fetch?: ((url: string, init?: RequestInit) => Promise<Response>) | undefined;
  /** Whether weights are kept in the browser's Cache API: they are if nothing is said. */
  cache?: boolean | undefined;
  /**
   * How a kernel is chosen among several that compute the same: by what the model says of devices like this one, "table",
   * if nothing is said; "time": where it says nothing of these, they are timed while the model loads, and what was the
   * fastest is remembered in the browser's Cache API.
   */
  choose?: "table" | "time" | undefined;
}

export interface RunOptions {
  signal?: AbortSignal | undefined;
  /** Sizes of symbols that do not follow from the inputs. */
  sizes?: Readonly<Record<string, number>> | undefined;
  /** Outputs that stay on the GPU: in a buffer of the page's, in a new one, which is the page's then, or where nobody reads them. */
  outputs?: Readonly<Record<string, GPUBuffer | "buffer" | "unread">> | undefined;
  /** The next call is made at once: what is small, and was run before, goes to the GPU together, and all of it comes back together. */
  more?: boolean | undefined;
}

export type RunResult = Record<string, TensorData | GPUBuffer>;

export interface DispatchTime {
  kernel: string;
  /** Of the model's program. */
  node: string;
  launch: number;
  /** On the GPU; null where the device has no timestamps. */
  seconds: number | null;
}

/** Where the time of a call went. */
export interface Profile {
  outputs: RunResult;
  dispatches: DispatchTime[];
  /** Of this thread, in seconds: checking and recording, encoding and submitting, waiting for the GPU, and all of it. */
  host: { prepare: number; encode: number; wait: number; total: number };
}

export interface CaptureOptions {
  /** Of the model: "main", or the only one, if nothing is said. */
  function?: string | undefined;
  /** The function is called with these. Without them its next call is captured, whoever makes it. */
  inputs?: Inputs | undefined;
  /** Of the call with `inputs`, as for `run`. */
  sizes?: Readonly<Record<string, number>> | undefined;
  /** Nodes of the model's program, or kernels: all if nothing is said. */
  nodes?: readonly string[] | undefined;
  /** The share of their calls that is captured, above 0 and at most 1: all if nothing is said. */
  sample?: number | undefined;
  /** Bytes that the copies may take, 67 MB (2^26) if nothing is said. Calls beyond them are left out. */
  maxBytes?: number | undefined;
  /** Whether weights go into the file. If nothing is said only their digests do. */
  weights?: boolean | undefined;
  /** Ends the wait for a call, and the call that `inputs` make. */
  signal?: AbortSignal | undefined;
}

export interface CapturedOperator {
  readonly kernel: string;
  /** Of the model's program; empty where it has no name. */
  readonly node: string;
  /** Of its inputs and outputs. */
  readonly bytes: number;
}

/** What operators of one call were given, and what this GPU made of it. */
export interface Capture {
  /** For `tapml import`. What is in it comes from the call's inputs: treat it as you treat those. */
  readonly file: Blob;
  readonly operators: readonly CapturedOperator[];
  /** Calls of operators that were chosen and are not in it, and why, each reason once. */
  readonly leftOut: number;
  readonly why: readonly string[];
}

export interface TensorFacts {
  readonly name: string;
  readonly dtype: DataType;
  readonly shape: readonly Extent[];
}

/** A function of a model. */
export interface ModelFunction {
  readonly inputs: readonly TensorFacts[];
  readonly outputs: readonly TensorFacts[];
  /** Rejects with a TapmlError, or the signal's reason. What was submitted before an abort runs to its end. */
  run(inputs: Inputs, options?: RunOptions): Promise<RunResult>;
  profile(inputs: Inputs, options?: RunOptions): Promise<Profile>;
}

/** How tokens are generated with a language model. */
export interface Generation {
  /** The function that takes 1 to `chunk` tokens, and the one that takes one; they may be the same. */
  readonly prefill: string;
  readonly decode: string;
  /** The function that gives the logits of each of up to `chunk` tokens, which verifies drafts; null where none does. */
  readonly verify?: string | null;
  /** Their output int32 that has the most likely token, so that nobody reads logits back; null where none has. */
  readonly next?: string | null;
  /** The function that draws a token of the logits that one of them left on the GPU; null where there is none. */
  readonly draw?: string | null;
  /** Inputs that they take besides: outputs of the same names of an encoder, the same at every call of a text. */
  readonly given?: readonly string[];
  readonly chunk: number;
  /** Tokens that the states have room for, and the bytes that each takes there. */
  readonly capacity: number;
  readonly bytes_per_token: number;
  /**
   * The size that states grow by: there is room for few tokens at first, and for twice as many each time that these run
   * out. Null where there is room for all from the beginning.
   */
  readonly places?: string | null;
  /**
   * The input of each that says in which blocks of the states the texts of its tokens lie, the places of a block, and how many
   * blocks there are at most: calls may have tokens of several texts. Null where they are of one.
   */
  readonly blocks?: { readonly input: string; readonly size: number; readonly count: number } | null;
  /** Tokens there are, from 0 on; those that end a text; the one that begins it. */
  readonly vocabulary: number;
  readonly end: readonly number[];
  readonly begin: number | null;
}

/**
 * Calls of a model with states of their own, as if it were loaded once more: weights, kernels and scratch memory are the
 * model's. Calls of a model and of its sequences run one after the other, in the order in which they are made.
 *
 * Within a budget of memory the states of the sequence that was used least recently are given back where a call needs the
 * room: its next call that needs them rejects with a TapmlError of kind "state", until `reset`.
 */
export interface Sequence {
  /** The model's. */
  readonly name: string;
  readonly generation: Generation | null;
  readonly functions: Readonly<Record<string, ModelFunction>>;
  /** That its states have on the GPU now. */
  readonly bytes: number;
  readonly stateVersion: number;
  /** Another one, which begins with what this one's states hold: they are copied on the GPU. */
  fork(): Promise<Sequence>;
  reset(): Promise<void>;
  /** The model is on a device again, where its own is lost; the states are as before the first call. */
  reload(options?: PrepareOptions): Promise<void>;
  /** Gives back its states, behind the calls that were made before. */
  dispose(): void;
}

/**
 * A model on a device. Its calls run one after the other, in the order in which they were made. `run` and the like are those
 * of the function `main`, or of the only one; where there are several others `run` rejects with their names, and `inputs` and
 * `outputs` are empty.
 */
export interface Model extends ModelFunction {
  readonly name: string;
  readonly title: string;
  readonly functions: Readonly<Record<string, ModelFunction>>;
  /** Null for what is no language model. */
  readonly generation: Generation | null;
  /** Bytes that it has on the GPU now. `other`: inputs, outputs, uniforms, and what is mapped. */
  readonly memory: { weights: number; arenas: number; states: number; other: number; total: number };
  /** Name of the variant that each kernel runs here. */
  readonly variants: Record<string, string>;
  /** Null where loading it again failed. */
  readonly device: GPUDevice | null;
  /** Another number after each call that may have changed the states: who counts on what is in them compares it. */
  readonly stateVersion: number;
  /**
   * What operators of a call are given and give, as a file for `tapml import`. The call gives what it gives without; where
   * it fails this rejects as it does.
   */
  capture(options?: CaptureOptions): Promise<Capture>;
  /** The states are as before the first call. */
  reset(): Promise<void>;
  /** Calls with states of their own, which are as before the first call. */
  sequence(): Promise<Sequence>;
  /** The same, which begin with what the model's own states hold. */
  fork(): Promise<Sequence>;
  /** The text of its tokenizer's file; null where it has none. */
  tokenizer(options?: { signal?: AbortSignal }): Promise<string | null>;
  /** On another device, or a new one where its own is lost. States are as before the first call. */
  reload(options?: PrepareOptions): Promise<void>;
  /** Gives back all that it has on the GPU. Calls that are under way are rejected. */
  dispose(): void;
}
