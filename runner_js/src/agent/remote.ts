/** Functions of a VM's large arrays and images on the GPU, of which the page's side has the kernels (gpu/index.ts). */
import type * as OwnArrays from "./arrays/arrays";
import type { Elements } from "./arrays/types";
import { BORDERS, type Connection, DONE, HEAD, type Numbers, PART, type Step, WAITING } from "./gpu/messages";
import type { Compute } from "./images/images";
import type { Pixels, Taps } from "./images/resample";

type Arrays = typeof OwnArrays;

/** Nanoseconds on typed arrays, measured in node: of a product of a matmul, of an element, of a weighted pixel. */
const COSTS: Readonly<Record<string, number>> = {
  ...{ matmul: 1.5, exp: 15, log: 20, log2: 17, sqrt: 5, tanh: 35, add: 3, subtract: 3, multiply: 3 },
  ...{ divide: 3, sum: 1, max: 3, min: 3, separable: 3, warp: 15 },
};
/** Milliseconds, after which an answer is not waited for any longer. */
const LONGEST = 20_000;
const MOST_FAILURES = 3;
/** How much larger a call is to be that is tried after a slow one; after the next slow one by that again. */
const FURTHER = 4;
const MOST = 3.4028234e38;
const LEAST_NORMAL = 1.1754944e-38;

/** Numbers that a GPU takes as they are: all are finite, and none is nearer to 0 than float32's least normal one, where `normal`. */
function ordinary(x: Float32Array, normal: boolean, least = -MOST): boolean {
  for (let i = 0; i < x.length; i++) {
    const value = x[i] as number;
    if (!(value >= least && value <= MOST)) return false;
    if (normal && value !== 0 && Math.abs(value) < LEAST_NORMAL) return false;
  }
  return true;
}

/** The other side. What it does not compute, for any reason, the VM does. */
export class Remote {
  private failures = 0;
  /** By kernel the milliseconds on typed arrays from which on the GPU is asked: more, where it was slower. */
  private readonly least = new Map<string, number>();
  /** By kernel how often it was, one time after the other. */
  private readonly slow = new Map<string, number>();

  constructor(
    private readonly connection: Connection,
    private readonly interrupt: Uint8Array,
    private readonly now: () => number,
  ) {}

  /** Whether `count` units of `cost` are so many that it is asked. */
  pays(cost: string, kernel: string, count: number): boolean {
    if (count === 0 || this.failures >= MOST_FAILURES) return false;
    const ms = (count * (COSTS[cost] as number)) / 1e6;
    return ms >= (this.connection.least > 0 ? (this.least.get(kernel) ?? this.connection.least) : 0);
  }

  /** The bytes of what the last step gives; null where there are none. Throws where the task is interrupted. */
  ask(
    [cost, count]: [cost: string, count: number],
    kernel: string,
    steps: readonly Step[],
    sizes: Readonly<Record<string, number>>,
    bytes: number,
  ): ArrayBuffer | null {
    const began = this.now();
    const answer = new SharedArrayBuffer(HEAD + bytes);
    const state = new Int32Array(answer, 0, 1);
    this.connection.port.postMessage({ kernel, steps, sizes, answer });
    while (Atomics.wait(state, 0, WAITING, 50) === "timed-out") {
      if (this.interrupt[0] !== 0) throw new Error("the task was interrupted");
      if (this.now() - began > LONGEST) this.failures = MOST_FAILURES;
      if (this.failures >= MOST_FAILURES) return null;
    }
    if (Atomics.load(state, 0) !== DONE) {
      this.failures += 1;
      return null;
    }
    this.failures = 0;
    const own = (count * (COSTS[cost] as number)) / 1e6;
    if ((new Float32Array(answer, 4, 1)[0] as number) > own) {
      const times = (this.slow.get(kernel) ?? 0) + 1;
      this.slow.set(kernel, times);
      this.least.set(kernel, own * FURTHER ** times);
    } else this.slow.delete(kernel);
    return new Uint8Array(answer, HEAD).slice().buffer;
  }
}

/** Whether both are typed arrays of that dtype. */
const sameKind = (x: Elements, y: Elements, dtype: string): boolean =>
  x.constructor === y.constructor && x.constructor.name.toLowerCase() === `${dtype}array`;

/** `own`, but for what is so large that the GPU is asked. */
export function arraysOf(own: Arrays, remote: Remote): Arrays {
  const floats = (found: ArrayBuffer | null): Float32Array<ArrayBuffer> | null => {
    const data = found && new Float32Array(found);
    return data && ordinary(data, false) ? data : null;
  };
  return {
    ...own,
    matmul(x, y, dtype, n, k, m, starts) {
      const pairs = JSON.parse(starts) as [number, number][];
      const count = pairs.length * n * k * m;
      const kernel = `matmul_${dtype}`;
      const taken = ["float32", "int32", "uint32"].includes(dtype) && sameKind(x, y, dtype) && count > 0;
      const real = x instanceof Float32Array && y instanceof Float32Array;
      if (
        taken &&
        remote.pays("matmul", kernel, count) &&
        (!real || (ordinary(x, false) && ordinary(y, false)))
      ) {
        const inputs = { x: x as Numbers, y: y as Numbers, starts: Uint32Array.from(pairs.flat()) };
        const size = pairs.length * n * m;
        const sizes = { n, k, m, size, pairs: pairs.length, xs: x.length, ys: y.length };
        const steps = [{ function: "matmul", inputs }];
        const found = remote.ask(["matmul", count], kernel, steps, sizes, 4 * size);
        const kept = real ? floats(found) : found && new (x.constructor as typeof Int32Array)(found);
        if (kept) return kept;
      }
      return own.matmul(x, y, dtype, n, k, m, starts);
    },
    unary(name, x, dtype) {
      const known = ["exp", "log", "log2", "sqrt", "tanh"].includes(name);
      if (known && dtype === "float32" && x instanceof Float32Array && remote.pays(name, name, x.length)) {
        const positive = name.startsWith("log") ? LEAST_NORMAL : name === "sqrt" ? 0 : -MOST;
        const bytes = 4 * x.length;
        if (ordinary(x, positive >= 0, positive)) {
          const steps = [{ function: name, inputs: { x } }];
          const found = floats(remote.ask([name, x.length], name, steps, { n: x.length }, bytes));
          if (found) return found;
        }
      }
      return own.unary(name, x, dtype);
    },
    binary(name, x, y, dtype, shape, xs, ys) {
      const known = ["add", "subtract", "multiply", "divide"].includes(name);
      const flat = xs === "[1]" && ys === "[1]" && dtype === "float32" && x.length === y.length;
      if (
        known &&
        flat &&
        x instanceof Float32Array &&
        y instanceof Float32Array &&
        remote.pays(name, name, x.length) &&
        ordinary(x, name === "divide") &&
        ordinary(y, name === "divide")
      ) {
        const steps = [{ function: name, inputs: { x, y } }];
        const found = floats(remote.ask([name, x.length], name, steps, { n: x.length }, 4 * x.length));
        if (found) return found;
      }
      return own.binary(name, x, y, dtype, shape, xs, ys);
    },
    reduce(name, x, count, dtype) {
      const known = ["sum", "max", "min"].includes(name);
      if (
        known &&
        dtype === "float32" &&
        x instanceof Float32Array &&
        count > 0 &&
        remote.pays(name, name, x.length) &&
        ordinary(x, false)
      ) {
        const length = x.length / count;
        const parts = Math.ceil(length / PART);
        const steps = [{ function: name, inputs: { x } }];
        const found = floats(
          remote.ask([name, x.length], name, steps, { count, length, xs: x.length }, 4 * count * parts),
        );
        if (found) return own.reduce(name, found, count, dtype);
      }
      return own.reduce(name, x, count, dtype);
    },
  };
}

/** Of uint8, four to a word. */
function words(x: Pixels): Float32Array | Uint32Array {
  if (x instanceof Float32Array) return x;
  const bytes = new Uint8Array(4 * Math.ceil(x.length / 4));
  bytes.set(x);
  return new Uint32Array(bytes.buffer);
}

/** `own`, but for images so large that the GPU is asked. */
export function imagesOf(own: Compute, remote: Remote): Compute {
  return {
    separable(x, dtype, width, channels, rows, columns) {
      const height = x.length / (width * channels);
      const [h, w] = [rows.places.length / rows.taps, columns.places.length / columns.taps];
      const count = channels * w * (height * columns.taps + h * rows.taps);
      const kernel = `separable_${dtype}`;
      if (remote.pays("separable", kernel, count) && (!(x instanceof Float32Array) || ordinary(x, false))) {
        const inputs = (taps: Taps) => ({ places: taps.places, weights: Float32Array.from(taps.weights) });
        const given = words(x);
        const size = h * w * channels;
        const invocations = dtype === "uint8" ? Math.ceil(size / 4) : size;
        const steps = [
          { function: "columns", inputs: { x: given, ...inputs(columns) } },
          { function: "rows", inputs: inputs(rows) },
        ];
        const sizes = {
          ...{ height, width, channels, h, w, words: given.length, invocations },
          ...{ taps: columns.taps, rowTaps: rows.taps },
        };
        const found = remote.ask(["separable", count], kernel, steps, sizes, 4 * invocations);
        if (found && dtype === "uint8") return new Uint8Array(found.slice(0, size));
        const kept = found && new Float32Array(found);
        if (kept && ordinary(kept, false)) return kept;
      }
      return own.separable(x, dtype, width, channels, rows, columns);
    },
    warp(x, dtype, width, channels, h, w, matrix, border, value) {
      const size = h * w * channels;
      const numbers = JSON.parse(matrix) as number[];
      const affine = numbers[6] === 0 && numbers[7] === 0 && numbers[8] === 1;
      if (affine && dtype === "uint8" && remote.pays("warp", "warp", size) && near(numbers, h, w)) {
        const given = words(x);
        const height = x.length / (width * channels);
        const inputs = {
          x: given,
          matrix: Float32Array.from(numbers.slice(0, 6)),
          value: Float32Array.from(JSON.parse(value) as number[]),
        };
        const invocations = Math.ceil(size / 4);
        const sizes = {
          ...{ height, width, channels, h, w, words: given.length, invocations },
          border: BORDERS.indexOf(border) + 1,
        };
        const steps = [{ function: "warp", inputs }];
        const found = remote.ask(["warp", size], "warp", steps, sizes, 4 * invocations);
        if (found) return new Uint8Array(found.slice(0, size));
      }
      return own.warp(x, dtype, width, channels, h, w, matrix, border, value);
    },
  };
}

/** Whether places are so near that float32 holds them to a thousandth of a pixel. */
function near(matrix: readonly number[], h: number, w: number): boolean {
  const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0] = matrix.map(Math.abs);
  return a * w + b * h + c < 4096 && d * w + e * h + f < 4096;
}
