/** One value of a JSON text is replaced, and nothing else of it changes: who reads the difference sees what was edited. */

type Path = readonly (string | number)[];

/** The text with another value at `path`. Throws where the text is no JSON or has no such value. */
export function withValue(text: string, path: Path, value: unknown): string {
  JSON.parse(text);
  const { from, to } = rangeOf(text, path);
  return text.slice(0, from) + JSON.stringify(value) + text.slice(to);
}

/** Of JSON, which is well-formed. */
function rangeOf(text: string, path: Path): { from: number; to: number } {
  let from = skipped(text, 0);
  for (const step of path) {
    const found = children(text, from).find(({ key }) => key === step);
    if (found === undefined) throw new Error(`there is no ${path.join(".")}`);
    from = found.from;
  }
  return { from, to: end(text, from) };
}

/** Of an object or a list: keys, and where their values begin. */
function children(text: string, open: number): { key: string | number; from: number }[] {
  const found: { key: string | number; from: number }[] = [];
  const named = text[open] === "{";
  if (!named && text[open] !== "[") return found;
  let at = skipped(text, open + 1);
  while (text[at] !== "}" && text[at] !== "]") {
    let key: string | number = found.length;
    if (named) {
      const after = end(text, at);
      key = String(JSON.parse(text.slice(at, after)));
      at = skipped(text, skipped(text, after) + 1);
    }
    found.push({ key, from: at });
    at = skipped(text, end(text, at));
    if (text[at] === ",") at = skipped(text, at + 1);
  }
  return found;
}

/** Behind the value that begins here. */
function end(text: string, from: number): number {
  if (text[from] === '"') return matched(/"(?:[^"\\]|\\.)*"/y, text, from);
  if (text[from] !== "{" && text[from] !== "[") return matched(/[^\s,\]}]+/y, text, from);
  const last = children(text, from).at(-1);
  return skipped(text, last === undefined ? from + 1 : end(text, last.from)) + 1;
}

function skipped(text: string, from: number): number {
  return matched(/\s*/y, text, from);
}

function matched(pattern: RegExp, text: string, from: number): number {
  pattern.lastIndex = from;
  return pattern.test(text) ? pattern.lastIndex : text.length;
}
