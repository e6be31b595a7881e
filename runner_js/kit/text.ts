/** How all pages write signs, numbers and names. */

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

/** What is said of whatever comes of a suite whose reference run is not to be believed: a line for each doubt. */
export function distrust(what: string, doubts: readonly string[]): string[] {
  return doubts.map((doubt) => `DO NOT TRUST ${what}: ${doubt}`);
}

/** Where there is no value. */
export const DASH = "\u2013";

/**
 * 1.9e-7, 0.43, 12.3: at most `digits` significant ones, and all that stand before the point.
 * A value that is no number comes as its name: "Infinity", "NaN".
 */
export function number(value: number | string | null | undefined, digits = 3): string {
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

export function trimZeros(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** Nine digits tell any two float32 apart: expected beside got. */
export function exact(value: number | string): string {
  return Number.isInteger(value) && Math.abs(Number(value)) < 1e9 ? String(value) : number(value, 9);
}

/** 1,269 */
export function grouped(n: number): string {
  return String(n).replace(/\B(?=(\d{3})+$)/g, ",");
}

export function seconds(value: number): string {
  if (value >= 90) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  if (value >= 1) return `${number(value, 2)} s`;
  if (value >= 1e-3) return `${number(value * 1e3, 2)} ms`;
  return value <= 0 ? "0 s" : `${number(value * 1e6, 2)} \u00b5s`;
}

/** float32[1, 15, 384] */
export function tensorType(dtype: string, shape: readonly number[]): string {
  return `${dtype}[${shape.join(", ")}]`;
}

/** A GPU's name; empty where the browser does not tell it. */
export function adapter(facts: Record<"vendor" | "architecture" | "device" | "description", string>): string {
  const { vendor, architecture, device, description } = facts;
  return description || [vendor, architecture].filter(Boolean).join(" ") || device;
}

/** A mark under the column (from 1) that a compiler means, with the source's own tabs so that it stays there. */
export function caret(source: string, column: number): string {
  return `${source.slice(0, Math.max(0, column - 1)).replace(/[^\t]/g, " ")}^`;
}
