/** WGSL for CodeMirror, by the page's own tokeniser: the same colours as where nothing is edited. */

import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { tags } from "@lezer/highlight";
import { type Token, type TokenKind, tokenizeLine } from "../model/wgsl";

const TAGS = {
  comment: tags.comment,
  keyword: tags.keyword,
  type: tags.typeName,
  number: tags.number,
  attribute: tags.meta,
  builtin: tags.function(tags.variableName),
} satisfies Record<Exclude<TokenKind, "plain">, unknown>;

const language = StreamLanguage.define<{ depth: number; rest: Token[] }>({
  name: "wgsl",
  startState: () => ({ depth: 0, rest: [] }),
  copyState: ({ depth, rest }) => ({ depth, rest: [...rest] }),
  token(stream, state) {
    if (stream.sol()) {
      const { tokens, depth } = tokenizeLine(stream.string, state.depth);
      state.depth = depth;
      state.rest = tokens;
    }
    const token = state.rest.shift();
    if (token === undefined) {
      stream.skipToEnd();
      return null;
    }
    stream.pos += token.text.length;
    return token.kind === "plain" ? null : token.kind;
  },
  languageData: { commentTokens: { line: "//" } },
  tokenTable: TAGS,
});

const colours = HighlightStyle.define(
  Object.entries(TAGS).map(([kind, tag]) => ({ tag, class: `t-${kind}` })),
);

export const wgsl = [language, syntaxHighlighting(colours)];
