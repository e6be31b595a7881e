/**
 * Sizes as integer expressions over symbols: an integer, a symbol's name, or [operation, a, b]. Values are exact integers
 * of at most 2^53 - 1. The twin of backend/tapml/expressions.py: tests/vectors/expressions.json holds both to the
 * same values and sentences. Plain JavaScript, for it is also a part of the pages that `tapml export --html` writes.
 */

/** @typedef {number | string | Expression[]} Expression */
/** @typedef {{name: string, minimum: number, maximum: number}} SizeSymbol */
/** @typedef {Readonly<Record<string, number>>} Sizes */

const MOST_DEPTH = 32;
const MOST_OPERATIONS = 256;

const FORM =
  "give an integer, a symbol's name, or [operation, a, b] with the operation add, sub, mul, floordiv, floormod, " +
  "ceildiv, min or max";

/** The quotient without its fraction: a / b by itself may round up to the next integer. @type {(a: number, b: number) => number} */
const truncated = (a, b) => (a - (a % b)) / b;

/** @type {Record<string, (a: number, b: number) => number>} */
const OPERATIONS = {
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
/** @type {Record<string, [string, number]>} */
const INFIX = { add: ["+", 1], sub: ["-", 1], mul: ["*", 2] };

export class ExpressionError extends Error {}

/** `expression`, which is well-formed; throws an ExpressionError. @param {unknown} expression @returns {Expression} */
export function checkedExpression(expression) {
  let operations = 0;
  /** @param {unknown} found @param {number} depth */
  const visit = (found, depth) => {
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
  return /** @type {Expression} */ (expression);
}

/** @param {unknown} found */
function kindOf(found) {
  if (found === null) return "null";
  return { boolean: "a boolean", number: "a number", string: "a text" }[String(typeof found)] ?? "an object";
}

/** Names of the symbols, each once, from left to right. @param {Expression} expression @returns {string[]} */
function symbolsOf(expression) {
  if (typeof expression === "string") return [expression];
  return Array.isArray(expression) ? [...new Set(expression.slice(1).flatMap(symbolsOf))] : [];
}

/**
 * A well-formed expression for people: `ceildiv(n, 64) * 12`.
 * @param {Expression} expression @param {number} strength of the operation it is an operand of @returns {string}
 */
export function printed(expression, strength = 0) {
  if (!Array.isArray(expression))
    return strength && Number(expression) < 0 ? `(${expression})` : String(expression);
  const [operation, a, b] = /** @type {[string, Expression, Expression]} */ (expression);
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
 * @param {unknown} expression @param {Sizes} sizes
 */
export function evaluate(expression, sizes) {
  return valueAt(checkedExpression(expression), sizes);
}

/** @param {Expression} expression @param {Sizes} sizes @returns {number} */
function valueAt(expression, sizes) {
  if (typeof expression === "number") return expression;
  if (typeof expression === "string") {
    const size = Object.hasOwn(sizes, expression) ? sizes[expression] : undefined;
    if (size === undefined)
      throw new ExpressionError(`there is no symbol ${expression} here: ${listed(Object.keys(sizes))}`);
    return size;
  }
  const [operation, a, b] = /** @type {[string, Expression, Expression]} */ (expression);
  const [left, right] = [valueAt(a, sizes), valueAt(b, sizes)];
  if (DIVISIONS.includes(operation) && right === 0)
    throw new ExpressionError(`${printed(expression)} divides by zero${where(expression, sizes)}`);
  const found = OPERATIONS[operation]?.(left, right) ?? Number.NaN;
  // What is beyond it rounds to no less.
  if (!Number.isSafeInteger(found))
    throw new ExpressionError(`${printed(expression)} is beyond 2^53 - 1${where(expression, sizes)}`);
  return found + 0; // -0 is 0
}

/**
 * The value of what counts something, at least `least` and at most `most`; `what` it counts begins each error.
 * @param {unknown} expression @param {Sizes} sizes @param {string} what @param {number} least @param {number} most
 */
export function extent(expression, sizes, what, least = 0, most = Number.MAX_SAFE_INTEGER) {
  let found = 0;
  try {
    found = evaluate(expression, sizes);
  } catch (cause) {
    throw cause instanceof ExpressionError ? new ExpressionError(`${what}: ${cause.message}`) : cause;
  }
  if (least <= found && found <= most) return found;
  const known = /** @type {Expression} */ (expression);
  const bound = found < least ? `at least ${least}` : `at most ${most}`;
  const isFound = typeof known === "number" ? String(found) : `${printed(known)} is ${found}`;
  throw new ExpressionError(`${what}: ${isFound}${where(known, sizes)}, and must be ${bound}`);
}

/**
 * Throws an ExpressionError unless `sizes` has each of `symbols`, in its range, and no other.
 * @param {readonly SizeSymbol[]} symbols @param {Sizes} sizes
 */
export function checkSizes(symbols, sizes) {
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

/** @param {readonly string[]} names */
function listed(names) {
  return names.length ? `there are ${names.join(", ")}` : "there are none";
}

/** @param {Expression} expression @param {Sizes} sizes */
function where(expression, sizes) {
  const values = symbolsOf(expression).map((name) => `${name} = ${sizes[name]}`);
  return values.length ? ` where ${values.join(", ")}` : "";
}
