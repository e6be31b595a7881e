/**
 * What expressions are for all sizes in range: the least and the greatest value, and whether two are always the same.
 *
 * An expression is kept as a polynomial with integer coefficients over atoms: names, and what is no polynomial (a quotient,
 * a minimum), each with its range. The twin of backend/tapml/compiled/algebra.py: it does the same in the same order, and
 * gives up at the same size.
 */
import { type Expression, ExpressionError, printed } from "../program/expressions";

const MOST_WORK = 2 ** 22;
const MOST_TERMS = 32;
const MOST_DEGREE = 8;
const MOST_SHOWN = 200;
const MOST = Number.MAX_SAFE_INTEGER;

/** Numbers of atoms that are multiplied, in order, with commas between -> coefficient, never 0. */
type Terms = ReadonlyMap<string, number>;
type Range = readonly [number, number];

/** What an expression may be: never less than `low`, never more than `high`. */
export interface Value {
  low: number;
  high: number;
  terms: Terms;
}

export type Scope = ReadonlyMap<string, Value>;

interface Atom {
  low: number;
  high: number;
  /** What it is never above, of atoms before it. */
  most: Terms | null;
}

const CORNERS: Record<string, (a: number, b: number) => number> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  floordiv: (a, b) => rounded(a, b, a < 0 !== b < 0 ? -1 : 0),
  ceildiv: (a, b) => rounded(a, b, a < 0 === b < 0 ? 1 : 0),
  min: Math.min,
  max: Math.max,
};

/** Exactly: a / b by itself may round to the next integer. */
function rounded(a: number, b: number, by: number): number {
  return (a - (a % b)) / b + (a % b !== 0 ? by : 0);
}

/** The atoms of one model. */
export class Algebra {
  readonly #atoms: Atom[] = [];
  readonly #numbers = new Map<string, number>();
  #work = 0;

  /** A new name for an integer from `low` to `high`, which is not above `most` either. */
  name(low: number, high: number, most: Terms | null = null): Value {
    this.#atoms.push({ low, high, most });
    return { low, high, terms: new Map([[String(this.#atoms.length - 1), 1]]) };
  }

  /** A new name for the number of a turn, of `count`. */
  turn(count: Value): Value {
    return this.name(0, Math.max(0, this.greatest(count) - 1), this.#sum(count.terms, constant(1), -1));
  }

  /** Throws an ExpressionError for an unknown name, a divisor that may be zero, and what may be beyond 2^53 - 1. */
  value(expression: Expression, scope: Scope): Value {
    this.spend(1);
    if (typeof expression === "number")
      return { low: expression, high: expression, terms: constant(expression) };
    if (typeof expression === "string") {
      const found = scope.get(expression);
      if (!found) throw new ExpressionError(`there is no size ${expression} here`);
      return found;
    }
    const [operation, a, b] = expression as [string, Expression, Expression];
    const [left, right] = [this.value(a, scope), this.value(b, scope)];
    const divides = operation === "floordiv" || operation === "floormod" || operation === "ceildiv";
    if (divides && right.low <= 0 && 0 <= right.high)
      throw new ExpressionError(`${shown(expression)} may divide by zero`);
    const [low, high] = rangeOf(operation, left, right);
    if (low < -MOST || high > MOST) throw new ExpressionError(`${shown(expression)} may be beyond 2^53 - 1`);
    return { low, high, terms: this.#terms(operation, left, right, low, high) };
  }

  /** What it is never below. */
  least({ low, terms }: Value): number {
    return Math.max(low, this.#least(terms) ?? low);
  }

  /** What it is never above. */
  greatest({ high, terms }: Value): number {
    const found = this.#least(new Map([...terms].map(([key, factor]) => [key, -factor])));
    return found === null ? high : Math.min(high, -found);
  }

  /** Whether `part` is never more than `whole`. */
  fits(part: Value, whole: Value): boolean {
    if (part.high <= whole.low) return true;
    const difference = this.#sum(whole.terms, part.terms, -1);
    const found = difference && this.#least(difference);
    return found !== null && found >= 0;
  }

  /** Whether it is always a multiple of `of`. */
  multiple({ terms }: Value, of: number): boolean {
    return [...terms.values()].every((factor) => factor % of === 0);
  }

  /** Throws an ExpressionError where the model has taken too much. */
  spend(work: number): void {
    this.#work += work;
    if (this.#work > MOST_WORK) throw new ExpressionError("the model's expressions take too long to check");
  }

  #terms(operation: string, left: Value, right: Value, low: number, high: number): Terms {
    let found: Terms | null = null;
    if (low === high) found = constant(low);
    else if (operation === "add" || operation === "sub")
      found = this.#sum(left.terms, right.terms, operation === "add" ? 1 : -1);
    else if (operation === "mul") found = this.#product(left.terms, right.terms);
    else if (operation === "min" || operation === "max") {
      const [small, large] = operation === "min" ? [left, right] : [right, left];
      if (small.high <= large.low) found = left.terms;
      else if (small.low >= large.high) found = right.terms;
    } else if (right.low === right.high && right.low > 0 && operation !== "floormod") {
      if (this.multiple(left, right.low))
        found = new Map([...left.terms].map(([key, factor]) => [key, factor / right.low]));
    }
    if (found) return found;
    const key = `${operation} ${sortedText(left.terms)} ${sortedText(right.terms)}`;
    let number = this.#numbers.get(key);
    if (number === undefined) {
      number = this.#atoms.push({ low, high, most: null }) - 1;
      this.#numbers.set(key, number);
    }
    return new Map([[String(number), 1]]);
  }

  #sum(left: Terms, right: Terms, sign: number): Terms | null {
    this.spend(left.size + right.size);
    const found = new Map(left);
    for (const [key, factor] of right) if (!added(found, key, sign * factor)) return null;
    return found.size <= MOST_TERMS ? found : null;
  }

  #product(left: Terms, right: Terms): Terms | null {
    this.spend(left.size * right.size);
    const found = new Map<string, number>();
    for (const [a, x] of left) {
      for (const [b, y] of right) {
        const key = [...numbersOf(a), ...numbersOf(b)].sort((one, other) => one - other);
        if (key.length > MOST_DEGREE || Math.abs(x * y) > MOST) return null;
        if (!added(found, key.join(), x * y)) return null;
      }
    }
    return found.size <= MOST_TERMS ? found : null;
  }

  /**
   * Atom by atom, the newest first: where it only adds it is at its least, where it only takes away at its most. What is
   * left takes each atom by itself.
   */
  #least(given: Terms): number | null {
    let terms = given;
    let atom = this.#atoms.length;
    for (;;) {
      const below = [...terms.keys()].flatMap(numbersOf).filter((number) => number < atom);
      if (!below.length) break;
      atom = below.reduce((one, other) => Math.max(one, other));
      this.spend(terms.size);
      const factor = new Map<string, number>();
      const rest = new Map<string, number>();
      let most = 0;
      for (const [key, of] of terms) {
        const numbers = numbersOf(key);
        const others = numbers.filter((number) => number !== atom);
        most = Math.max(most, numbers.length - others.length);
        (others.length < numbers.length ? factor : rest).set(others.join(), of);
      }
      const bound = this.#atoms[atom];
      if (most > 1 || !bound) continue;
      const range = this.#rangeOf(factor);
      if (!range || (range[0] < 0 && 0 < range[1])) continue;
      const end = range[0] >= 0 ? constant(bound.low) : (bound.most ?? constant(bound.high));
      const product = this.#product(factor, end);
      terms = (product && this.#sum(rest, product, 1)) ?? terms;
    }
    return this.#rangeOf(terms)?.[0] ?? null;
  }

  /** Null where it may be beyond 2^53 - 1. */
  #rangeOf(terms: Terms): Range | null {
    let [low, high] = [0, 0];
    for (const [key, factor] of terms) {
      this.spend(1);
      let ends: Range = [factor, factor];
      for (const number of numbersOf(key)) {
        const atom = this.#atoms[number] as Atom;
        const corners = ends.flatMap((end) => [end * atom.low, end * atom.high]);
        ends = [Math.min(...corners), Math.max(...corners)];
        if (ends[0] < -MOST || ends[1] > MOST) return null;
      }
      low += ends[0];
      high += ends[1];
      if (low < -MOST || high > MOST) return null;
    }
    return [low, high];
  }
}

/** For people, and not too long for them. */
export function shown(expression: Expression): string {
  const text = printed(expression);
  return text.length <= MOST_SHOWN ? text : `${text.slice(0, MOST_SHOWN)}...`;
}

/** Whether they are shown to be the same for all sizes. */
export function same(one: Value, other: Value): boolean {
  if (one.terms.size !== other.terms.size) return false;
  return [...one.terms].every(([key, factor]) => other.terms.get(key) === factor);
}

function constant(value: number): Terms {
  return new Map(value ? [["", value]] : []);
}

function numbersOf(key: string): number[] {
  return key ? key.split(",").map(Number) : [];
}

function sortedText(terms: Terms): string {
  return [...terms].map(String).sort().join(" ");
}

function rangeOf(operation: string, left: Value, right: Value): Range {
  // A remainder has the divisor's sign, and is nearer to zero.
  if (operation === "floormod") {
    if (0 <= left.low && left.high < right.low) return [left.low, left.high];
    return right.low > 0 ? [0, right.high - 1] : [right.low + 1, 0];
  }
  const of = CORNERS[operation] as (a: number, b: number) => number;
  const corners = [left.low, left.high].flatMap((a) => [of(a, right.low), of(a, right.high)]);
  return [Math.min(...corners), Math.max(...corners)];
}

/** Whether the sum is one that is held exactly. */
function added(terms: Map<string, number>, key: string, factor: number): boolean {
  const found = (terms.get(key) ?? 0) + factor;
  terms.delete(key);
  if (found) terms.set(key, found);
  return Math.abs(found) <= MOST;
}
