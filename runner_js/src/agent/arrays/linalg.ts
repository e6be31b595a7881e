/** Products of matrices, and what is solved by them. Stacks of matrices lie one behind the other. */
import { type Elements, made } from "./types";

/** Each of `starts` (JSON: pairs of places) is a product of an (n, k) and a (k, m) matrix. */
export function matmul(
  x: Elements,
  y: Elements,
  dtype: string,
  n: number,
  k: number,
  m: number,
  starts: string,
): Elements {
  const pairs = JSON.parse(starts) as [number, number][];
  const out = made(dtype, pairs.length * n * m);
  const whole = dtype.includes("int");
  const row = whole ? new Int32Array(m) : new Float64Array(m);
  const add = whole ? addWhole : addScaled;
  pairs.forEach(([a, b], pair) => {
    for (let i = 0; i < n; i++) {
      row.fill(0);
      for (let l = 0; l < k; l++) add(row as never, x[a + i * k + l] as number, y, b + l * m);
      out.set(row, (pair * n + i) * m);
    }
  });
  return out;
}

function addScaled(row: Float64Array, factor: number, y: Elements, at: number): void {
  for (let j = 0; j < row.length; j++) (row[j] as number) += factor * (y[at + j] as number);
}

function addWhole(row: Int32Array, factor: number, y: Elements, at: number): void {
  for (let j = 0; j < row.length; j++) row[j] = (row[j] as number) + Math.imul(factor, y[at + j] as number);
}

/** Gauss's elimination with pivots by columns; the determinant, and 0 where there is no solution. `a` and `b` are overwritten. */
function eliminate(a: Float64Array, n: number, b: Float64Array, m: number): number {
  let determinant = 1;
  for (let column = 0; column < n; column++) {
    let pivot = column;
    for (let i = column + 1; i < n; i++)
      if (Math.abs(a[i * n + column] as number) > Math.abs(a[pivot * n + column] as number)) pivot = i;
    const value = a[pivot * n + column] as number;
    determinant *= pivot === column ? value : -value;
    if (value === 0) return 0;
    if (pivot !== column) {
      swap(a, n, pivot, column);
      swap(b, m, pivot, column);
    }
    for (let i = column + 1; i < n; i++) {
      const factor = (a[i * n + column] as number) / value;
      if (factor === 0) continue;
      for (let j = column; j < n; j++) (a[i * n + j] as number) -= factor * (a[column * n + j] as number);
      for (let j = 0; j < m; j++) (b[i * m + j] as number) -= factor * (b[column * m + j] as number);
    }
  }
  for (let i = n - 1; i >= 0; i--)
    for (let j = 0; j < m; j++) {
      let rest = b[i * m + j] as number;
      for (let l = i + 1; l < n; l++) rest -= (a[i * n + l] as number) * (b[l * m + j] as number);
      b[i * m + j] = rest / (a[i * n + i] as number);
    }
  return determinant;
}

function swap(x: Float64Array, width: number, i: number, k: number): void {
  const row = x.slice(i * width, (i + 1) * width);
  x.copyWithin(i * width, k * width, (k + 1) * width);
  x.set(row, k * width);
}

export function det(x: Elements, dtype: string, n: number, count: number): Elements {
  const out = made(dtype, count);
  const none = new Float64Array();
  for (let i = 0; i < count; i++) {
    const a = Float64Array.from(x.subarray(i * n * n, (i + 1) * n * n));
    out[i] = eliminate(a, n, none, 0);
  }
  return out;
}

/** Solutions of (n, n) matrices for (n, m) right sides, `count` of both. */
export function solve(
  x: Elements,
  y: Elements,
  dtype: string,
  n: number,
  m: number,
  count: number,
): Elements {
  const out = made(dtype, count * n * m);
  for (let i = 0; i < count; i++) {
    const a = Float64Array.from(x.subarray(i * n * n, (i + 1) * n * n));
    const b = Float64Array.from(y.subarray(i * n * m, (i + 1) * n * m));
    if (eliminate(a, n, b, m) === 0 && n > 0) throw new RangeError("the matrix is singular");
    out.set(b, i * n * m);
  }
  return out;
}

/** Lower triangles whose product with their transposes they are. */
export function cholesky(x: Elements, dtype: string, n: number, count: number): Elements {
  const out = made(dtype, x.length);
  for (let one = 0; one < count; one++) {
    const at = one * n * n;
    const l = new Float64Array(n * n);
    for (let i = 0; i < n; i++)
      for (let j = 0; j <= i; j++) {
        let rest = x[at + i * n + j] as number;
        for (let k = 0; k < j; k++) rest -= (l[i * n + k] as number) * (l[j * n + k] as number);
        if (i === j && !(rest > 0)) throw new RangeError("the matrix is not positive definite");
        l[i * n + j] = i === j ? Math.sqrt(rest) : rest / (l[j * n + j] as number);
      }
    out.set(l, at);
  }
  return out;
}
