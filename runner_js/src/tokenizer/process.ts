import { byType, type Fields, fail, fieldsOf, listOf, optional, sequenceOf, textOf } from "./file";
import { idOf } from "./vocabulary";

/** Ids of one or two texts, each with its type. */
export interface Typed {
  ids: number[];
  types: number[];
}

/** Puts the special tokens around one text or two. `added`: how many those are. */
export interface Process {
  (texts: readonly (readonly number[])[]): Typed;
  added(pair: boolean): number;
}

/** A special token's ids, or a text by its place. */
type Item = { ids: readonly number[]; type: number } | { text: number; type: number };
type Template = readonly Item[];

const TEXT = (text: number, type = text): Item => ({ text, type });
const PLAIN = templates([TEXT(0)], [TEXT(0), TEXT(1)]);

/** Without special tokens. */
export const unprocessed: Process = PLAIN;

/** Refuses a post-processor that is not supported. */
export function processorOf(value: unknown): Process {
  return optional(value, (found) => byType(found, "the post-processor", KNOWN)) ?? PLAIN;
}

const KNOWN: Record<string, (fields: Fields) => Process> = {
  // It changes places in the text alone.
  ByteLevel: () => PLAIN,
  BertProcessing: (fields) => {
    const [start, end] = [special(fields.cls), special(fields.sep)];
    return templates(
      [token(start, 0), TEXT(0), token(end, 0)],
      [token(start, 0), TEXT(0), token(end, 0), TEXT(1), token(end, 1)],
    );
  },
  RobertaProcessing: (fields) => {
    const [start, end] = [special(fields.cls), special(fields.sep)].map((ids) => token(ids, 0)) as [
      Item,
      Item,
    ];
    return templates([start, TEXT(0), end], [start, TEXT(0), end, end, TEXT(1, 0), end]);
  },
  TemplateProcessing: (fields) => {
    const tokens = fieldsOf(fields.special_tokens ?? {}, "special_tokens");
    const named = new Map(
      Object.entries(tokens).map(([name, entry]) => {
        const ids = listOf(fieldsOf(entry, "a special token").ids, "the ids of a special token");
        return [name, ids.map(idOf)];
      }),
    );
    return templates(template(fields.single, named, false), template(fields.pair, named, true));
  },
  Sequence: (fields) => {
    const parts = sequenceOf(fields, "processors", processorOf);
    const adding = parts.filter((part) => part !== PLAIN);
    if (adding.length > 1) fail("a Sequence of several post-processors that add tokens is not supported");
    return adding[0] ?? PLAIN;
  },
};

function templates(single: Template, pair: Template): Process {
  const process = (texts: readonly (readonly number[])[]) => {
    const ids: number[] = [];
    const types: number[] = [];
    for (const item of texts.length > 1 ? pair : single) {
      const found = "ids" in item ? item.ids : (texts[item.text] ?? []);
      for (const id of found) {
        ids.push(id);
        types.push(item.type);
      }
    }
    return { ids, types };
  };
  const added = (both: boolean) =>
    (both ? pair : single).reduce((sum, item) => sum + ("ids" in item ? item.ids.length : 0), 0);
  return Object.assign(process, { added });
}

function template(value: unknown, named: ReadonlyMap<string, number[]>, pair: boolean): Template {
  return listOf(value, "a template").map((entry): Item => {
    const piece = fieldsOf(entry, "a part of a template");
    const kind = piece.Sequence !== undefined ? "Sequence" : "SpecialToken";
    const fields = fieldsOf(piece[kind], "a part of a template");
    const type = idOf(fields.type_id ?? 0);
    const name = textOf(fields.id, "the name of a part of a template");
    if (kind === "SpecialToken") {
      return token(named.get(name) ?? fail(`the template's ${name.slice(0, 100)} is no special token`), type);
    }
    if (name !== "A" && !(name === "B" && pair)) fail(`a template has no text ${name.slice(0, 100)}`);
    return TEXT(name === "A" ? 0 : 1, type);
  });
}

function token(ids: readonly number[], type: number): Item {
  return { ids, type };
}

/** ["[SEP]", 102] */
function special(value: unknown): readonly number[] {
  return [idOf(listOf(value, "a special token")[1])];
}
