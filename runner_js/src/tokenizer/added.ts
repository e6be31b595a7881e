import { countOf, type Fields, fieldsOf, flagOf, listOf, textOf } from "./file";
import type { Normalize } from "./normalize";
import { SPACE, spaceAtEnd, WORD } from "./pattern";
import { idOf } from "./vocabulary";

/** A token that is found in the text itself, before anything else looks at it. */
export interface AddedToken {
  id: number;
  content: string;
  special: boolean;
  /** Found in the normalized text, not in the text as it was given. */
  normalized: boolean;
  singleWord: boolean;
  left: boolean;
  right: boolean;
}

/** A part of a text: an added token, or text between such. */
export type Part = { text: string; id: null } | { text: string; id: number };

const MOST_CHARACTERS = 1000;
const WORD_BEFORE = new RegExp(`[${WORD}\\p{Join_Control}]$`, "u");
const WORD_AFTER = new RegExp(`^[${WORD}\\p{Join_Control}]`, "u");
const SPACES_AFTER = new RegExp(`[${SPACE}]*`, "uy");

export function addedTokensOf(value: unknown): AddedToken[] {
  return listOf(value ?? [], "added_tokens").map((entry) => {
    const fields: Fields = fieldsOf(entry, "an added token");
    const content = textOf(fields.content, "the content of an added token");
    countOf(MOST_CHARACTERS - content.length, `${MOST_CHARACTERS} less the length of an added token`);
    const special = flagOf(fields.special, false);
    return {
      id: idOf(fields.id),
      content,
      special,
      normalized: flagOf(fields.normalized, !special),
      singleWord: flagOf(fields.single_word, false),
      left: flagOf(fields.lstrip, false),
      right: flagOf(fields.rstrip, false),
    };
  });
}

/** Parts of a text by the added tokens in it; the text between them is normalized. */
export function splitter(tokens: readonly AddedToken[], normalize: Normalize): (text: string) => Part[] {
  const raw = new Finder(tokens.filter(({ normalized }) => !normalized));
  const normal = new Finder(
    tokens
      .filter(({ normalized }) => normalized)
      .map((token) => ({ ...token, content: normalize(token.content) })),
  );
  return (text) =>
    raw.split(text).flatMap((part) => (part.id === null ? normal.split(normalize(part.text)) : [part]));
}

/** The longest of the tokens that begin at a place, from left to right. */
class Finder {
  private readonly byContent = new Map<string, AddedToken>();
  /** Lengths of the tokens by their first character, longest first. */
  private readonly lengths = new Map<string, number[]>();

  constructor(tokens: readonly AddedToken[]) {
    for (const token of tokens) {
      const { content } = token;
      const first = content[0];
      if (first === undefined || this.byContent.has(content)) continue;
      this.byContent.set(content, token);
      const known = new Set([...(this.lengths.get(first) ?? []), content.length]);
      this.lengths.set(
        first,
        [...known].sort((a, b) => b - a),
      );
    }
  }

  split(text: string): Part[] {
    const parts: Part[] = [];
    let done = 0;
    for (let at = 0; at < text.length; ) {
      const token = this.at(text, at);
      if (!token) {
        at++;
        continue;
      }
      let start = at;
      let end = at + token.content.length;
      at = end;
      if (token.singleWord && !isWord(text, start, end)) continue;
      if (token.left) start = done + spaceAtEnd(text.slice(done, start));
      if (token.right) {
        SPACES_AFTER.lastIndex = end;
        end += SPACES_AFTER.exec(text)?.[0].length ?? 0;
      }
      if (start > done) parts.push({ text: text.slice(done, start), id: null });
      parts.push({ text: text.slice(start, end), id: token.id });
      done = end;
    }
    if (done < text.length) parts.push({ text: text.slice(done), id: null });
    return parts;
  }

  private at(text: string, at: number): AddedToken | undefined {
    for (const length of this.lengths.get(text[at] as string) ?? []) {
      const found = this.byContent.get(text.slice(at, at + length));
      if (found) return found;
    }
    return undefined;
  }
}

function isWord(text: string, start: number, end: number): boolean {
  // A character has at most two units.
  return (
    !WORD_BEFORE.test(text.slice(Math.max(0, start - 2), start)) && !WORD_AFTER.test(text.slice(end, end + 2))
  );
}
