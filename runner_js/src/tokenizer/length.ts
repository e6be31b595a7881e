/** Truncation and padding, as tokenizer.json states them. */
import { countOf, type Fields, fail, fieldsOf, optional } from "./file";
import type { Typed } from "./process";
import { idOf } from "./vocabulary";

export type Truncate = (texts: readonly (readonly number[])[], added: number) => (readonly number[])[];
export type Pad = (typed: Typed) => Typed & { mask: number[] };

export const untruncated: Truncate = (texts) => [...texts];
export const unpadded: Pad = (typed) => ({ ...typed, mask: typed.ids.map(() => 1) });

export function truncationOf(value: unknown): Truncate {
  return optional(value, (found) => truncation(fieldsOf(found, "truncation"))) ?? untruncated;
}

export function paddingOf(value: unknown): Pad {
  return optional(value, (found) => padding(fieldsOf(found, "padding"))) ?? unpadded;
}

/** At most `most` tokens, special ones included, of which the longest text gives up the most. */
export function truncatedTo(most: number): Truncate {
  return truncation({ max_length: most, strategy: "LongestFirst", direction: "Right" });
}

function truncation(fields: Fields): Truncate {
  const most = countOf(fields.max_length, "max_length");
  const { strategy = "LongestFirst" } = fields;
  const left = side(fields.direction);
  const cut = (text: readonly number[], length: number) =>
    left ? text.slice(Math.max(0, text.length - length)) : text.slice(0, length);
  if (!["LongestFirst", "OnlyFirst", "OnlySecond"].includes(strategy as string)) {
    fail("truncation has an unknown strategy");
  }
  return (texts, added) => {
    const room = most - added;
    if (room < 0) fail(`max_length ${most} has no room for the ${added} special tokens`);
    const [first = [], second] = texts;
    const excess = first.length + (second?.length ?? 0) - room;
    if (excess <= 0) return [...texts];
    if (strategy === "LongestFirst") {
      if (!second) return [cut(first, room)];
      const [a, b] = shared(first.length, second.length, room);
      return [cut(first, a), cut(second, b)];
    }
    const at = strategy === "OnlyFirst" ? 0 : 1;
    const target = texts[at];
    if (!target || target.length <= excess) {
      return fail(`the ${at === 0 ? "first" : "second"} text is too short to give up ${excess} tokens`);
    }
    return texts.map((text, number) => (number === at ? cut(text, text.length - excess) : text));
  };
}

/** What is left of two lengths. */
function shared(first: number, second: number, room: number): [number, number] {
  let [less, more] = first > second ? [second, first] : [first, second];
  more = less > room ? less : Math.max(less, room - less);
  if (less + more > room) {
    less = Math.floor(room / 2);
    more = less + (room % 2);
  }
  return first > second ? [more, less] : [less, more];
}

function padding(fields: Fields): Pad {
  const { strategy } = fields;
  const fixed =
    strategy === "BatchLongest" ? null : countOf((strategy as Fields | null)?.Fixed, "the length of padding");
  const multiple = optional(fields.pad_to_multiple_of, (value) => countOf(value, "pad_to_multiple_of")) || 1;
  const left = side(fields.direction);
  const id = idOf(fields.pad_id ?? 0);
  const type = idOf(fields.pad_type_id ?? 0);
  return ({ ids, types }) => {
    const length = Math.ceil((fixed ?? ids.length) / multiple) * multiple;
    const missing = Math.max(0, length - ids.length);
    if (missing > 1 << 24) fail(`padding to ${length} tokens`);
    const padded = (values: readonly number[], value: number) => {
      const more = new Array<number>(missing).fill(value);
      return left ? [...more, ...values] : [...values, ...more];
    };
    return {
      ids: padded(ids, id),
      types: padded(types, type),
      mask: padded(
        ids.map(() => 1),
        0,
      ),
    };
  };
}

function side(direction: unknown): boolean {
  return direction === "Left";
}
