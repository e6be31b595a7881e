/** A light WGSL tokeniser for colouring: it never fails and never loses a character. */

export type TokenKind = "plain" | "comment" | "keyword" | "type" | "number" | "attribute" | "builtin";

export interface Token {
  kind: TokenKind;
  text: string;
}

const KEYWORDS = new Set(
  (
    "alias break case const const_assert continue continuing default diagnostic discard else enable false fn for if " +
    "let loop override requires return struct switch true var while"
  ).split(" "),
);

const TYPES =
  /^(?:bool|[iuf](?:8|16|32|64)|vec[234][iufh]?|mat[234]x[234][fh]?|array|atomic|ptr|sampler|texture_\w+|storage|workgroup|uniform|private|function|read|write|read_write)$/;

// One alternative a token; what matches none is plain text. WGSL block comments nest, handled below.
const TOKEN =
  /(\/\/.*)|(\/\*)|(@\w+)|((?:0[xX][\da-fA-F.]+(?:[pP][+-]?\d+)?|\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)[iufh]?\b)|([A-Za-z_]\w*)(?=(\s*\()?)/g;

/** The tokens of each line, so that a line can be numbered and marked by itself. */
export function tokenizeLines(text: string): Token[][] {
  let depth = 0;
  return text.split(/\r?\n/).map((line) => {
    const found = tokenizeLine(line, depth);
    depth = found.depth;
    return found.tokens;
  });
}

/** Of one line that begins in so many nested comments; `depth` is where it ends. */
export function tokenizeLine(line: string, within: number): { tokens: Token[]; depth: number } {
  const tokens: Token[] = [];
  let depth = within;
  let at = 0;
  if (depth > 0) {
    const end = commentEnd(line, 0, depth);
    depth = end.depth;
    at = end.at;
    push(tokens, "comment", line.slice(0, at));
  }
  while (at < line.length) {
    TOKEN.lastIndex = at;
    const match = TOKEN.exec(line);
    if (match === null) {
      push(tokens, "plain", line.slice(at));
      break;
    }
    push(tokens, "plain", line.slice(at, match.index));
    if (match[2] !== undefined) {
      const end = commentEnd(line, match.index + 2, 1);
      depth = end.depth;
      at = end.at;
      push(tokens, "comment", line.slice(match.index, at));
      continue;
    }
    push(tokens, kindOf(match), match[0]);
    at = match.index + match[0].length;
  }
  return { tokens, depth };
}

function commentEnd(line: string, from: number, depth: number): { at: number; depth: number } {
  const edge = /\/\*|\*\//g;
  edge.lastIndex = from;
  let left = depth;
  for (let match = edge.exec(line); match !== null; match = edge.exec(line)) {
    left += match[0] === "/*" ? 1 : -1;
    if (left === 0) return { at: edge.lastIndex, depth: 0 };
  }
  return { at: line.length, depth: left };
}

function kindOf(match: RegExpExecArray): TokenKind {
  if (match[1] !== undefined) return "comment";
  if (match[3] !== undefined) return "attribute";
  if (match[4] !== undefined) return "number";
  const word = match[5] ?? "";
  if (KEYWORDS.has(word)) return "keyword";
  if (TYPES.test(word)) return "type";
  return match[6] !== undefined ? "builtin" : "plain";
}

function push(tokens: Token[], kind: TokenKind, text: string): void {
  if (text === "") return;
  const last = tokens.at(-1);
  if (last?.kind === kind) last.text += text;
  else tokens.push({ kind, text });
}
