/** Functions of one element, and of two that are broadcast. */
import { type Elements, made, rows, type Walk } from "./types";

type Unary = (x: number) => number;
type Binary = (x: number, y: number) => number;
type UnaryLoop = (x: Elements, out: Elements) => void;
type BinaryLoop = (
  count: number,
  x: Elements,
  i: number,
  di: number,
  y: Elements,
  k: number,
  dk: number,
  out: Elements,
  o: number,
) => void;

/** Each function has a loop of its own, so that the compiler of the browser puts the one into the other. */
function loop1(f: Unary): UnaryLoop {
  return (x, out) => {
    for (let i = 0; i < out.length; i++) out[i] = f(x[i] as number);
  };
}
function loop2(f: Binary): BinaryLoop {
  return (count, x, i, di, y, k, dk, out, o) => {
    for (let n = 0; n < count; n++, i += di, k += dk) out[o + n] = f(x[i] as number, y[k] as number);
  };
}

/** To the even one of two that are as near. */
export function roundEven(x: number): number {
  const low = Math.floor(x);
  const over = x - low;
  const to = over > 0.5 || (over === 0.5 && low % 2 !== 0) ? low + 1 : low;
  return to === 0 && (x < 0 || Object.is(x, -0)) ? -0 : to;
}

const UNARY: Record<string, Unary> = {
  ...{
    abs: Math.abs,
    acos: Math.acos,
    acosh: Math.acosh,
    asin: Math.asin,
    asinh: Math.asinh,
    atan: Math.atan,
  },
  ...{ atanh: Math.atanh, ceil: Math.ceil, cos: Math.cos, cosh: Math.cosh, exp: Math.exp, expm1: Math.expm1 },
  ...{
    floor: Math.floor,
    log: Math.log,
    log1p: Math.log1p,
    log2: Math.log2,
    log10: Math.log10,
    sin: Math.sin,
  },
  ...{ sinh: Math.sinh, sqrt: Math.sqrt, tan: Math.tan, tanh: Math.tanh, trunc: Math.trunc },
  sign: (x) => (x === 0 ? 0 : Math.sign(x)),
  positive: (x) => x,
  negative: (x) => -x,
  reciprocal: (x) => 1 / x,
  round: roundEven,
  square: (x) => x * x,
  square_integer: (x) => Math.imul(x, x),
  bitwise_invert: (x) => ~x,
  logical_not: (x) => (x === 0 ? 1 : 0),
  isfinite: (x) => (Number.isFinite(x) ? 1 : 0),
  isinf: (x) => (x === Number.POSITIVE_INFINITY || x === Number.NEGATIVE_INFINITY ? 1 : 0),
  isnan: (x) => (Number.isNaN(x) ? 1 : 0),
  signbit: (x) => (x < 0 || Object.is(x, -0) ? 1 : 0),
};

const BINARY: Record<string, Binary> = {
  add: (x, y) => x + y,
  subtract: (x, y) => x - y,
  multiply: (x, y) => x * y,
  multiply_integer: Math.imul,
  divide: (x, y) => x / y,
  floor_divide: floorDivide,
  floor_divide_integer: (x, y) => (y === 0 ? 0 : Math.floor(x / y)),
  remainder: (x, y) => {
    const rest = x % y;
    if (rest === 0) return y < 0 || Object.is(y, -0) ? -0 : 0;
    return rest < 0 === y < 0 ? rest : rest + y;
  },
  remainder_integer: (x, y) => {
    if (y === 0) return 0;
    const rest = x % y;
    return rest !== 0 && rest < 0 !== y < 0 ? rest + y : rest;
  },
  // As C has it: 1 to any power, and -1 to an infinite one, are 1.
  pow: (x, y) => (x === 1 || (x === -1 && !Number.isFinite(y) && !Number.isNaN(y)) ? 1 : x ** y),
  pow_integer: powInteger,
  atan2: Math.atan2,
  copysign: (x, y) => (y < 0 || Object.is(y, -0) ? -Math.abs(x) : Math.abs(x)),
  hypot: Math.hypot,
  logaddexp: (x, y) => {
    if (x === y) return x + Math.LN2;
    const [low, high] = x < y ? [x, y] : [y, x];
    return high + Math.log1p(Math.exp(low - high));
  },
  maximum: Math.max,
  minimum: Math.min,
  equal: (x, y) => (x === y ? 1 : 0),
  not_equal: (x, y) => (x !== y ? 1 : 0),
  less: (x, y) => (x < y ? 1 : 0),
  less_equal: (x, y) => (x <= y ? 1 : 0),
  greater: (x, y) => (x > y ? 1 : 0),
  greater_equal: (x, y) => (x >= y ? 1 : 0),
  // NaN is not 0, and so it is true.
  logical_and: (x, y) => (x !== 0 && y !== 0 ? 1 : 0),
  logical_or: (x, y) => (x !== 0 || y !== 0 ? 1 : 0),
  logical_xor: (x, y) => ((x === 0) !== (y === 0) ? 1 : 0),
  bitwise_and: (x, y) => x & y,
  bitwise_or: (x, y) => x | y,
  bitwise_xor: (x, y) => x ^ y,
  bitwise_left_shift: (x, y) => (y > 31 ? 0 : x << y),
  bitwise_right_shift: (x, y) => x >> Math.min(y, 31),
  bitwise_right_shift_unsigned: (x, y) => (y > 31 ? 0 : x >>> y),
};

function floorDivide(x: number, y: number): number {
  if (y === 0) return x / y;
  let rest = x % y;
  let whole = (x - rest) / y;
  if (rest !== 0 && rest < 0 !== y < 0) {
    rest += y;
    whole -= 1;
  }
  if (whole === 0) return x / y < 0 || Object.is(x / y, -0) ? -0 : 0;
  const low = Math.floor(whole);
  return whole - low > 0.5 ? low + 1 : low;
}

/** Modulo 2^32, as all integers here. */
function powInteger(x: number, y: number): number {
  if (y < 0) throw new RangeError("integers have no negative powers: use a float");
  let found = 1;
  for (let base = x, rest = y; rest > 0; rest = Math.floor(rest / 2), base = Math.imul(base, base))
    if (rest % 2 === 1) found = Math.imul(found, base);
  return found;
}

const UNARY_LOOPS = new Map(Object.entries(UNARY).map(([name, f]) => [name, loop1(f)]));
const BINARY_LOOPS = new Map(Object.entries(BINARY).map(([name, f]) => [name, loop2(f)]));

export function unary(name: string, x: Elements, dtype: string): Elements {
  const out = made(dtype, x.length);
  (UNARY_LOOPS.get(name) as UnaryLoop)(x, out);
  return out;
}

/** `shape`, `xs`, `ys`: JSON; strides are 0 along an axis that is broadcast. */
export function binary(
  name: string,
  x: Elements,
  y: Elements,
  dtype: string,
  shape: string,
  xs: string,
  ys: string,
): Elements {
  const extents = JSON.parse(shape) as number[];
  const a: Walk = { data: x, at: 0, strides: JSON.parse(xs) as number[] };
  const b: Walk = { data: y, at: 0, strides: JSON.parse(ys) as number[] };
  const out = made(
    dtype,
    extents.reduce((product, extent) => product * extent, 1),
  );
  const run = BINARY_LOOPS.get(name) as BinaryLoop;
  const count = extents.at(-1) as number;
  let at = 0;
  rows(extents, [a, b], ([i, k]) => {
    run(
      count,
      x,
      i as number,
      a.strides.at(-1) as number,
      y,
      k as number,
      b.strides.at(-1) as number,
      out,
      at,
    );
    at += count;
  });
  return out;
}

/** Elements of `x` where `condition` is true, else of `y`: all of one length. */
export function where(condition: Elements, x: Elements, y: Elements, dtype: string): Elements {
  const out = made(dtype, condition.length);
  for (let i = 0; i < out.length; i++) out[i] = (condition[i] ? x[i] : y[i]) as number;
  return out;
}
