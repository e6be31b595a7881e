import { byType, type Fields, flagOf, optional, sequenceOf, textOf } from "./file";
import { patternOf, spaceAtEnd } from "./pattern";

export type Normalize = (text: string) => string;

const LEFT = /^\p{White_Space}+/u;
const CJK =
  /[\u4E00-\u9FFF\u3400-\u4DBF\u{20000}-\u{2A6DF}\u{2A700}-\u{2B73F}\u{2B740}-\u{2B81F}\u{2B920}-\u{2CEAF}\uF900-\uFAFF\u{2F800}-\u{2FA1F}]/gu;
/** What BERT calls control characters. */
const CONTROL = /\uFFFD|(?![\t\n\r])[\p{Cc}\p{Cf}\p{Co}]/gu;

/** Each character by itself: the sigma at a word's end is none of its own. */
export const lowercase: Normalize = (text) => text.replace(/\P{Lowercase}/gu, (c) => c.toLowerCase());

/** Refuses a normalizer that is not supported. */
export function normalizerOf(value: unknown): Normalize {
  return optional(value, (found) => byType(found, "the normalizer", KNOWN)) ?? ((text) => text);
}

const unicode = (form: "NFC" | "NFD" | "NFKC" | "NFKD") => () => (text: string) => text.normalize(form);

const KNOWN: Record<string, (fields: Fields) => Normalize> = {
  BertNormalizer: bert,
  NFC: unicode("NFC"),
  NFD: unicode("NFD"),
  NFKC: unicode("NFKC"),
  NFKD: unicode("NFKD"),
  Lowercase: () => lowercase,
  StripAccents: () => (text) => text.replace(/\p{M}/gu, ""),
  Strip: (fields) => {
    const left = flagOf(fields.strip_left, true);
    const right = flagOf(fields.strip_right, true);
    return (text) => {
      const begun = left ? text.replace(LEFT, "") : text;
      return right ? begun.slice(0, spaceAtEnd(begun)) : begun;
    };
  },
  Replace: (fields) => {
    const pattern = patternOf(fields.pattern, "Replace");
    const content = textOf(fields.content, "the content of Replace");
    return (text) => text.replace(pattern, () => content);
  },
  Prepend: (fields) => {
    const prepend = textOf(fields.prepend, "the prefix of Prepend");
    return (text) => (text ? prepend + text : text);
  },
  Sequence: (fields) => {
    const all = sequenceOf(fields, "normalizers", normalizerOf);
    return (text) => all.reduce((done, normalize) => normalize(done), text);
  },
};

function bert(fields: Fields): Normalize {
  const clean = flagOf(fields.clean_text, true);
  const separate = flagOf(fields.handle_chinese_chars, true);
  const lower = flagOf(fields.lowercase, true);
  const strip = flagOf(fields.strip_accents, lower);
  return (text) => {
    let done = text;
    if (clean) done = done.replace(CONTROL, "").replace(/\p{White_Space}/gu, " ");
    if (separate) done = done.replace(CJK, " $& ");
    if (strip) done = done.normalize("NFD").replace(/\p{Mn}/gu, "");
    return lower ? lowercase(done) : done;
  };
}
