/** What a VM asks of the GPU's side for its arrays, and where the answer goes. The GPU's side believes nothing that it is told. */

/** Bytes before an answer's own: 32 bits of the below, and the milliseconds that the kernels took as float32. */
export const HEAD = 8;
export const WAITING = 0;
export const DONE = 1;
export const FAILED = 2;

/** How much of a row a workgroup reduces: what comes of it is reduced by whoever asks. */
export const PART = 2 ** 15;
/** Borders of images by their numbers, from 1. */
export const BORDERS = ["constant", "replicate", "reflect", "wrap", "reflect_101"];

export type Numbers = Float32Array | Int32Array | Uint32Array;

/** The GPU's side, for one VM. */
export interface Connection {
  readonly port: MessagePort;
  /** What takes fewer milliseconds on typed arrays is computed there. */
  readonly least: number;
}

export interface Step {
  /** Of the kernel's model. */
  readonly function: string;
  /** By name. Those that are left out are what the step before has left. */
  readonly inputs: Readonly<Record<string, Numbers>>;
}

/** One answer is waited for at a time. */
export interface Asked {
  readonly kernel: string;
  readonly steps: readonly Step[];
  readonly sizes: Readonly<Record<string, number>>;
  /** HEAD bytes, then the elements of the last step's output. */
  readonly answer: SharedArrayBuffer;
}
