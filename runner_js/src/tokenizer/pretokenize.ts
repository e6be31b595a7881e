import { asBytes } from "./bytes";
import { byType, type Fields, fail, flagOf, optional, sequenceOf, textOf } from "./file";
import { escaped, patternOf, SPACE, translated, WORD } from "./pattern";
import { BEHAVIORS, type Behavior, behaviorOf } from "./split";

/** `first`: whether a piece is the beginning of the text. */
export interface Piece {
  text: string;
  first: boolean;
}
export type PreTokenize = (pieces: Piece[]) => Piece[];

const GPT2 = translated("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+");
const PUNCTUATION = /[!-/:-@[-`{-~\p{P}]/gu;
const SPACES = new RegExp(`[${SPACE}]`, "gu");
const WORDS = new RegExp(`[${WORD}\\p{Join_Control}]+|[^${WORD}\\p{Join_Control}${SPACE}]+`, "gu");
const { Isolated, Removed, Contiguous, MergedWithNext } = BEHAVIORS as Record<string, Behavior> & {
  Isolated: Behavior;
  Removed: Behavior;
  Contiguous: Behavior;
  MergedWithNext: Behavior;
};

/** Refuses a pre-tokenizer that is not supported. */
export function preTokenizerOf(value: unknown): PreTokenize {
  return optional(value, (found) => byType(found, "the pre-tokenizer", KNOWN)) ?? ((pieces) => pieces);
}

/** Each piece by itself. `made`: the pieces are no parts of the text any more. */
function each(by: (text: string, first: boolean) => string[], made = false): PreTokenize {
  return (pieces) =>
    pieces.flatMap(({ text, first }) =>
      by(text, first)
        .filter((part) => part !== "")
        // What began the text may be left out.
        .map((part, number) => ({
          text: part,
          first: first && number === 0 && (made || text.startsWith(part)),
        })),
    );
}

const split = (behavior: Behavior, pattern: RegExp) => each((text) => behavior(text, pattern));

/** Behind each other's back: what is between matches is what matches. */
const inverted = (behavior: Behavior, pattern: RegExp): PreTokenize =>
  each((text) => {
    if (behavior === Removed) return text.match(pattern) ?? [];
    if (behavior === Isolated || behavior === Contiguous) return behavior(text, pattern);
    return fail("a Split that is inverted and merges is not supported");
  });

const KNOWN: Record<string, (fields: Fields) => PreTokenize> = {
  BertPreTokenizer: () => {
    const words = split(Removed, SPACES);
    const marks = split(Isolated, PUNCTUATION);
    return (pieces) => marks(words(pieces));
  },
  Whitespace: () => inverted(Removed, WORDS),
  WhitespaceSplit: () => split(Removed, SPACES),
  Punctuation: (fields) => split(behaviorOf(fields.behavior ?? "Isolated"), PUNCTUATION),
  Digits: (fields) => split(flagOf(fields.individual_digits, false) ? Isolated : Contiguous, /\p{N}/gu),
  CharDelimiterSplit: (fields) =>
    split(Removed, new RegExp(escaped(textOf(fields.delimiter, "a delimiter")), "gu")),
  Split: (fields) => {
    const behavior = behaviorOf(fields.behavior);
    const pattern = patternOf(fields.pattern, "Split");
    return flagOf(fields.invert, false) ? inverted(behavior, pattern) : split(behavior, pattern);
  },
  ByteLevel: (fields) => {
    const prefix = flagOf(fields.add_prefix_space, true);
    const words = flagOf(fields.use_regex, true);
    return each((text) => {
      const begun = prefix && !text.startsWith(" ") ? ` ${text}` : text;
      return (words ? Isolated(begun, GPT2) : [begun]).map(asBytes);
    }, true);
  },
  Metaspace: metaspace,
  Sequence: (fields) => {
    const all = sequenceOf(fields, "pretokenizers", preTokenizerOf);
    return (pieces) => all.reduce((done, preTokenize) => preTokenize(done), pieces);
  },
};

function metaspace(fields: Fields): PreTokenize {
  const sign = textOf(fields.replacement ?? "▁", "the replacement of Metaspace");
  // Of former versions: add_prefix_space.
  const scheme = fields.prepend_scheme ?? (flagOf(fields.add_prefix_space, true) ? "always" : "never");
  if (!["always", "first", "never"].includes(scheme as string))
    fail("Metaspace has an unknown prepend_scheme");
  const splits = flagOf(fields.split, true);
  const pattern = new RegExp(escaped(sign), "gu");
  return each((text, first) => {
    let done = text.replaceAll(" ", sign);
    const wanted = scheme === "always" || (scheme === "first" && first);
    if (wanted && !done.startsWith(sign)) done = sign + done;
    return splits ? MergedWithNext(done, pattern) : [done];
  }, true);
}
