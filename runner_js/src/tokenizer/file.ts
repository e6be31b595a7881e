/** What is read of a tokenizer.json. It may come from anybody: each field is checked where it is used. */

import { TokenizerError } from "./error";

export type Fields = Readonly<Record<string, unknown>>;

export function fail(sentence: string): never {
  throw new TokenizerError(`the tokenizer: ${sentence}`);
}

export function fieldsOf(value: unknown, what: string): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) fail(`${what} is no object`);
  return value as Fields;
}

export function listOf(value: unknown, what: string): readonly unknown[] {
  return Array.isArray(value) ? value : fail(`${what} is no list`);
}

export function textOf(value: unknown, what: string): string {
  return typeof value === "string" ? value : fail(`${what} is no text`);
}

/** A number from 0, as an id or a count. */
export function countOf(value: unknown, what: string): number {
  const fits = Number.isInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 31;
  return fits ? (value as number) : fail(`${what} is no whole number from 0`);
}

export function flagOf(value: unknown, otherwise: boolean): boolean {
  return typeof value === "boolean" ? value : otherwise;
}

/** Of a part that may be missing. */
export function optional<T>(value: unknown, read: (value: unknown) => T): T | null {
  return value === undefined || value === null ? null : read(value);
}

/** By its type, what a part of the file is. Refuses a type that is not in `known`. */
export function byType<T>(
  value: unknown,
  what: string,
  known: Readonly<Record<string, (fields: Fields) => T>>,
): T {
  const fields = fieldsOf(value, what);
  const type = textOf(fields.type, `the type of ${what}`);
  const make = Object.hasOwn(known, type) ? known[type] : undefined;
  if (!make)
    return fail(`${what} ${type.slice(0, 100)} is not supported (${Object.keys(known).join(", ")} are)`);
  return make(fields);
}

/** Each part of a Sequence, as `read` has it; a Sequence in another is refused. */
export function sequenceOf<T>(fields: Fields, name: string, read: (part: unknown) => T): T[] {
  const parts = listOf(fields[name], `${name} of a Sequence`);
  if (parts.length > 64) fail(`a Sequence has ${parts.length} ${name}, and at most 64 are read`);
  return parts.map((part) => {
    const nested = fieldsOf(part, `a part of ${name}`).type === "Sequence";
    return nested ? fail(`a Sequence of ${name} in another is not supported`) : read(part);
  });
}
