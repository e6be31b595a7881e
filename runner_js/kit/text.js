/** How all pages write signs, numbers and names. Plain JavaScript in ASCII, for exported files contain it. */

/** The sign of every state that a test may be shown in. */
export const GLYPH = {
  pass: "\u2713",
  fail: "\u2717",
  error: "!",
  unsupported: "\u2013",
  unbounded: "\u221e",
  running: "\u25b8",
  waiting: "\u2026",
  none: "\u00b7",
};

/** Where there is no value. */
export const DASH = "\u2013";

/**
 * 1.9e-7, 0.43, 12.3: at most `digits` significant ones, and all that stand before the point.
 * @param {number | string | null | undefined} value what is no number comes as its name: "Infinity", "NaN"
 */
export function number(value, digits = 3) {
  if (value === null || value === undefined) return DASH;
  const known = Number(value);
  if (Number.isNaN(known)) return String(value);
  if (!Number.isFinite(known)) return known > 0 ? "\u221e" : "\u2212\u221e";
  if (known === 0) return "0";
  const size = Math.abs(known);
  if (size < 1e-3 || size >= 1e6) {
    const [mantissa = "", exponent = ""] = known.toExponential(Math.max(0, digits - 1)).split("e");
    return `${trimZeros(mantissa)}e${exponent.replace("+", "")}`;
  }
  return trimZeros(known.toPrecision(Math.max(digits, Math.ceil(Math.log10(size + 1)))));
}

/** @param {string} text */
export function trimZeros(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** Nine digits tell any two float32 apart: expected beside got. @param {number | string} value */
export function exact(value) {
  return Number.isInteger(value) && Math.abs(Number(value)) < 1e9 ? String(value) : number(value, 9);
}

/** 1,269 @param {number} n */
export function grouped(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** @param {number} value */
export function seconds(value) {
  if (value >= 90) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  if (value >= 1) return `${number(value, 2)} s`;
  if (value >= 1e-3) return `${number(value * 1e3, 2)} ms`;
  return value <= 0 ? "0 s" : `${number(value * 1e6, 2)} \u00b5s`;
}

/** float32[1, 15, 384] @param {string} dtype @param {readonly number[]} shape */
export function tensorType(dtype, shape) {
  return `${dtype}[${shape.join(", ")}]`;
}

/**
 * A GPU's name; empty where the browser does not tell it.
 * @param {{vendor: string, architecture: string, device: string, description: string}} facts
 */
export function adapter({ vendor, architecture, device, description }) {
  return description || [vendor, architecture].filter(Boolean).join(" ") || device;
}

/**
 * A mark under the column that a compiler means, with the source's own tabs so that it stays there.
 * @param {string} source @param {number} column from 1
 */
export function caret(source, column) {
  return `${source.slice(0, Math.max(0, column - 1)).replace(/[^\t]/g, " ")}^`;
}
