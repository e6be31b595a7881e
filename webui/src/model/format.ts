/** Numbers and words, short enough for a table cell. */

import {
  adapter,
  caret,
  distrust,
  exact,
  grouped,
  number,
  seconds,
  tensorType,
  trimZeros,
} from "../../../runner_js/kit/text";
import type { JsonNumber } from "../api/generated/results";

/** What exported files write too. */
export { adapter, caret, distrust, exact, grouped, number, seconds, tensorType };

/** For measured errors: two digits say enough. */
export function error(value: JsonNumber | null | undefined): string {
  return number(value, 2);
}

/** Cosine similarity: six decimals, and never rounded up to a perfect one. */
export function cosine(value: JsonNumber | null | undefined): string {
  if (typeof value !== "number" || !Number.isFinite(value)) return number(value);
  const text = value.toFixed(6);
  return text === "1.000000" && value < 1 - 1e-6 ? "0.999999" : text;
}

export function bytes(count: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = count;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const text =
    unit === 0 || value >= 100
      ? String(Math.round(value))
      : trimZeros(value.toPrecision(value >= 10 ? 3 : 2));
  return `${text} ${units[unit]}`;
}

/** 137 tests, 1 test, 1,269 tests. */
export function count(n: number, one: string, many = `${one}s`): string {
  return `${grouped(n)} ${n === 1 ? one : many}`;
}

/** Large counts where space is short: 88 M, 12.3 k. */
export function short(n: number): string {
  if (Math.abs(n) < 10_000) return grouped(n);
  for (const [size, unit] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    if (Math.abs(n) >= size) return `${trimZeros((n / size).toPrecision(3))} ${unit}`;
  }
  return String(n);
}

/** Over a bar of a chart there is room for four characters: 999, 2.3k, 88M. */
export function tiny(n: number): string {
  if (n < 1000) return String(n);
  const power = Math.min(3, Math.floor(Math.log10(n) / 3));
  const value = n / 1000 ** power;
  return `${value < 9.95 ? trimZeros(value.toFixed(1)) : Math.round(value)}${["", "k", "M", "G"][power]}`;
}

/** What a device is, beside its name. */
export function deviceText(device: { user_agent: string; adapter: Parameters<typeof adapter>[0] }): string {
  return [browser(device.user_agent), adapter(device.adapter)].filter(Boolean).join(" · ");
}

export function percent(partial: number, total: number): string {
  if (total <= 0) return "0%";
  const value = (100 * partial) / total;
  if (value > 0 && value < 1) return "<1%";
  if (value > 99 && value < 100) return ">99%";
  return `${Math.round(value)}%`;
}

/** 2026-11-20 21:04, in the reader's own time zone. */
export function date(iso: string): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return iso;
  const two = (n: number) => String(n).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** "Chrome 156" out of a user agent; empty when nothing is recognised. */
export function browser(userAgent: string): string {
  const edge = /Edg\/(\d+)/.exec(userAgent);
  if (edge) return `Edge ${edge[1]}`;
  const found = /(Firefox|Chrome|Deno)\/(\d+)/.exec(userAgent) ?? /(Node\.js)\/v?(\d+)/.exec(userAgent);
  if (found) return `${found[1]} ${found[2]}`;
  const safari = /Version\/(\d+(?:\.\d+)?).*Safari\//.exec(userAgent);
  return safari ? `Safari ${safari[1]}` : "";
}

/** Roughly: "9 s", "3 min", "2 h 10 min". */
export function duration(seconds: number): string {
  if (seconds < 100) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 100 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
