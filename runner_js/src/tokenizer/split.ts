import { fail, textOf } from "./file";

export type Behavior = (text: string, pattern: RegExp) => string[];

/** What becomes of matches and of what lies between them, by the name that tokenizer.json gives it. */
export const BEHAVIORS: Readonly<Record<string, Behavior>> = {
  Removed: (text, pattern) =>
    spans(text, pattern)
      .filter(({ match }) => !match)
      .map(textOfSpan),
  Isolated: (text, pattern) => spans(text, pattern).map(textOfSpan),
  Contiguous: (text, pattern) => merged(spans(text, pattern), (a, b) => a.match === b.match),
  MergedWithPrevious: (text, pattern) => merged(spans(text, pattern), (a, b) => !a.match && b.match),
  MergedWithNext: (text, pattern) => {
    const pieces: string[] = [];
    let before = "";
    for (const { text: part, match } of spans(text, pattern)) {
      if (match) {
        if (before) pieces.push(before);
        before = part;
      } else {
        pieces.push(before + part);
        before = "";
      }
    }
    return before ? [...pieces, before] : pieces;
  },
};

export function behaviorOf(name: unknown): Behavior {
  const text = textOf(name, "a behavior");
  const found = Object.hasOwn(BEHAVIORS, text) ? BEHAVIORS[text] : undefined;
  return found ?? fail(`the behavior ${text.slice(0, 100)} is not supported`);
}

interface Span {
  text: string;
  match: boolean;
}

const textOfSpan = ({ text }: Span) => text;

/** Matches of a global expression and what lies between, in order, none empty. */
function spans(text: string, pattern: RegExp): Span[] {
  const found: Span[] = [];
  let end = 0;
  for (const { 0: match, index } of text.matchAll(pattern)) {
    if (!match) continue;
    if (index > end) found.push({ text: text.slice(end, index), match: false });
    found.push({ text: match, match: true });
    end = index + match.length;
  }
  if (end < text.length) found.push({ text: text.slice(end), match: false });
  return found;
}

function merged(all: Span[], together: (before: Span, after: Span) => boolean): string[] {
  const pieces: string[] = [];
  let before: Span | null = null;
  for (const span of all) {
    if (before && together(before, span)) pieces.push(pieces.pop() + span.text);
    else pieces.push(span.text);
    before = span;
  }
  return pieces;
}
