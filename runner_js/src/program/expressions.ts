/**
 * Sizes as integer expressions over symbols: an integer, a symbol's name, or [operation, a, b]. Values are exact integers
 * of at most 2^53 - 1. The twin of backend/tapml/expressions.py: tests/vectors/expressions.json holds both to the
 * same values and sentences.
 */

export type Expression = number | string | Expression[];
export type Sizes = Readonly<Record<string, number>>;
export interface SizeSymbol {
  name: string;
  minimum: number;
  maximum: number;
}

const MOST_DEPTH = 32;
const MOST_OPERATIONS = 256;

const FORM =
  "give an integer, a symbol's name, or [operation, a, b] with the operation add, sub, mul, floordiv, floormod, " +
  "ceildiv, min or max";

/** The quotient without its fraction: a / b by itself may round up to the next integer. */
const truncated = (a: number, b: number) => (a - (a % b)) / b;

const OPERATIONS: Record<string, (a: number, b: number) => number> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  floordiv: (a, b) => truncated(a, b) - (a % b !== 0 && a < 0 !== b < 0 ? 1 : 0),
  floormod: (a, b) => (a % b !== 0 && a < 0 !== b < 0 ? (a % b) + b : a % b),
  ceildiv: (a, b) => truncated(a, b) + (a % b !== 0 && a < 0 === b < 0 ? 1 : 0),
  min: Math.min,
  max: Math.max,
};
const DIVISIONS = ["floordiv", "floormod", "ceildiv"];
const INFIX: Record<string, [string, number]> = { add: ["+", 1], sub: ["-", 1], mul: ["*", 2] };

export class ExpressionError extends Error {}

/** `expression`, which is well-formed; throws an ExpressionError. */
export function checkedExpression(expression: unknown): Expression {
  let operations = 0;
  const visit = (found: unknown, depth: number) => {
    if (depth > MOST_DEPTH) throw new ExpressionError(`an expression is at most ${MOST_DEPTH} levels deep`);
    if (Number.isInteger(found)) {
      if (!Number.isSafeInteger(found))
        throw new ExpressionError("an integer in an expression is beyond 2^53 - 1");
    } else if (Array.isArray(found)) {
      if (found.length !== 3 || typeof found[0] !== "string" || !Object.hasOwn(OPERATIONS, found[0]))
        throw new ExpressionError(`a list of ${found.length} is no expression: ${FORM}`);
      if (++operations > MOST_OPERATIONS)
        throw new ExpressionError(`an expression has at most ${MOST_OPERATIONS} operations`);
      visit(found[1], depth + 1);
      visit(found[2], depth + 1);
    } else if (typeof found !== "string" || !/^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(found)) {
      throw new ExpressionError(`${kindOf(found)} is no expression: ${FORM}`);
    }
  };
  visit(expression, 1);
  return expression as Expression;
}

function kindOf(found: unknown): string {
  if (found === null) return "null";
  return { boolean: "a boolean", number: "a number", string: "a text" }[String(typeof found)] ?? "an object";
}

/** Names of the symbols, each once, from left to right. */
export function symbolsOf(expression: Expression): string[] {
  if (typeof expression === "string") return [expression];
  return Array.isArray(expression) ? [...new Set(expression.slice(1).flatMap(symbolsOf))] : [];
}

/** A well-formed expression for people: `ceildiv(n, 64) * 12`; `strength` of the operation it is an operand of. */
export function printed(expression: Expression, strength = 0): string {
  if (!Array.isArray(expression))
    return strength && Number(expression) < 0 ? `(${expression})` : String(expression);
  const [operation, a, b] = expression as [string, Expression, Expression];
  const infix = INFIX[operation];
  if (!infix) return `${operation}(${printed(a)}, ${printed(b)})`;
  const [sign, own] = infix;
  // The left operand of an equally strong operation needs no parentheses.
  const text = `${printed(a, own - 1)} ${sign} ${printed(b, own)}`;
  return own <= strength ? `(${text})` : text;
}

/**
 * The value for `sizes`, exactly. Throws an ExpressionError for what is no expression, a symbol that `sizes` does not
 * have, a division by zero, and a value, also in between, that is beyond 2^53 - 1.
 */
export function evaluate(expression: unknown, sizes: Sizes): number {
  return valueAt(checkedExpression(expression), sizes);
}

function valueAt(expression: Expression, sizes: Sizes): number {
  if (typeof expression === "number") return expression;
  if (typeof expression === "string") {
    const size = Object.hasOwn(sizes, expression) ? sizes[expression] : undefined;
    if (size === undefined)
      throw new ExpressionError(`there is no symbol ${expression} here: ${listed(Object.keys(sizes))}`);
    return size;
  }
  const [operation, a, b] = expression as [string, Expression, Expression];
  const [left, right] = [valueAt(a, sizes), valueAt(b, sizes)];
  if (DIVISIONS.includes(operation) && right === 0)
    throw new ExpressionError(`${printed(expression)} divides by zero${where(expression, sizes)}`);
  const found = OPERATIONS[operation]?.(left, right) ?? Number.NaN;
  // What is beyond it rounds to no less.
  if (!Number.isSafeInteger(found))
    throw new ExpressionError(`${printed(expression)} is beyond 2^53 - 1${where(expression, sizes)}`);
  return found + 0; // -0 is 0
}

/** The value of what counts something, at least `least` and at most `most`; `what` it counts begins each error. */
export function extent(
  expression: unknown,
  sizes: Sizes,
  what: string,
  least = 0,
  most = Number.MAX_SAFE_INTEGER,
): number {
  let found = 0;
  try {
    found = evaluate(expression, sizes);
  } catch (cause) {
    throw cause instanceof ExpressionError ? new ExpressionError(`${what}: ${cause.message}`) : cause;
  }
  if (least <= found && found <= most) return found;
  const known = expression as Expression;
  const bound = found < least ? `at least ${least}` : `at most ${most}`;
  const isFound = typeof known === "number" ? String(found) : `${printed(known)} is ${found}`;
  throw new ExpressionError(`${what}: ${isFound}${where(known, sizes)}, and must be ${bound}`);
}

/** Throws an ExpressionError unless `sizes` has each of `symbols`, in its range, and no other. */
export function checkSizes(symbols: readonly SizeSymbol[], sizes: Sizes): void {
  for (const { name, minimum, maximum } of symbols) {
    const size = Object.hasOwn(sizes, name) ? sizes[name] : undefined;
    if (size === undefined)
      throw new ExpressionError(`no size is given for ${name} (${minimum} to ${maximum})`);
    if (!(minimum <= size && size <= maximum))
      throw new ExpressionError(`${name} is ${size}, and must be from ${minimum} to ${maximum}`);
  }
  const known = symbols.map(({ name }) => name);
  for (const name of Object.keys(sizes)) {
    if (!known.includes(name))
      throw new ExpressionError(
        `a size is given for ${name}, and there is no symbol ${name} here: ${listed(known)}`,
      );
  }
}

function listed(names: readonly string[]): string {
  return names.length ? `there are ${names.join(", ")}` : "there are none";
}

function where(expression: Expression, sizes: Sizes): string {
  const values = symbolsOf(expression).map((name) => `${name} = ${sizes[name]}`);
  return values.length ? ` where ${values.join(", ")}` : "";
}
