/** Patterns of tokenizer.json: texts, or expressions in the syntax of Oniguruma, as the expressions of JavaScript. */
import { fail, fieldsOf, textOf } from "./file";

/** Oniguruma's \s, \w and \d, which are Unicode's; JavaScript's are not. */
export const SPACE = "\\p{White_Space}";
export const WORD = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";

const ONE_SPACE = /\p{White_Space}/u;
const MOST_CHARACTERS = 10_000;
const CLASSES: Record<string, string> = { s: SPACE, w: WORD, d: "\\p{Nd}" };
/** That stand for themselves in both. */
const KEPT = /^\\[nrtfv^$\\.*+?()[\]{}|/-]/;
const PLAIN = /^\\["'#%&,:;<=>@_`~! ]/;
const CODE = /^\\(?:x\{([0-9A-Fa-f]{1,6})\}|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4}))/;
const PROPERTY = /^\\([pP])\{(\^?)([A-Za-z_]{1,40})\}/;
const QUANTIFIER = /^(?:[?*+]|\{\d+(?:,\d*)?\})\??/;
const GROUPS = /^\(\?(?:[:=!]|<=|<!)/;

/** As a global expression. Refuses what it cannot express in JavaScript. */
export function patternOf(value: unknown, what: string): RegExp {
  const fields = fieldsOf(value, what);
  if (fields.String !== undefined) return new RegExp(escaped(textOf(fields.String, what)), "gu");
  return translated(textOf(fields.Regex, `the expression of ${what}`));
}

/** Where the white space at the end of a text begins; an expression for it would look at each space anew. */
export function spaceAtEnd(text: string): number {
  let end = text.length;
  while (end > 0 && ONE_SPACE.test(text[end - 1] as string)) end--;
  return end;
}

export function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

export function translated(source: string): RegExp {
  if (source.length > MOST_CHARACTERS) fail(`an expression has more than ${MOST_CHARACTERS} characters`);
  const refuse = (why: string) => fail(`the expression ${source.slice(0, 200)} is not supported: ${why}`);
  const code = new Translation(source, refuse).all();
  try {
    return new RegExp(code, "gu");
  } catch (cause) {
    return refuse(cause instanceof Error ? cause.message : String(cause));
  }
}

class Translation {
  private at = 0;
  /** Of each open group, whether it ignores case. */
  private readonly groups: boolean[] = [];

  constructor(
    private readonly source: string,
    private readonly refuse: (why: string) => never,
  ) {}

  all(): string {
    let code = "";
    while (this.at < this.source.length) code += this.next();
    return code;
  }

  private get rest(): string {
    return this.source.slice(this.at);
  }

  private take(text: string): string {
    this.at += text.length;
    return text;
  }

  private next(): string {
    const { rest } = this;
    const character = String.fromCodePoint(rest.codePointAt(0) as number);
    switch (character) {
      case "(":
        return this.open();
      case ")":
        this.groups.pop();
        return this.take(character);
      case "[":
        return this.set();
      case "\\":
        return this.escape(false);
      case ".":
        this.take(character);
        return "[^\\n]";
      case "|":
        return this.take(character);
      case "^":
        this.take(character);
        return "(?<![^\\n])";
      case "$":
        this.take(character);
        return "(?![^\\n])";
    }
    const quantifier = QUANTIFIER.exec(rest)?.[0];
    if (quantifier) {
      this.take(quantifier);
      if (this.rest.startsWith("+")) return this.refuse(`${quantifier}+`);
      return quantifier;
    }
    this.take(character);
    if (/[{}\]/]/.test(character)) return `\\${character}`;
    return this.groups.at(-1) ? anyCase(character) : character;
  }

  private open(): string {
    const ignores = this.groups.at(-1) ?? false;
    if (this.rest.startsWith("(?i:")) {
      this.groups.push(true);
      this.take("(?i:");
      return "(?:";
    }
    const group = GROUPS.exec(this.rest)?.[0] ?? (this.rest.startsWith("(?") ? null : "(");
    if (group === null) return this.refuse(`the group ${this.rest.slice(0, 5)}`);
    this.groups.push(ignores);
    this.take(group);
    return group;
  }

  private escape(inSet: boolean): string {
    const { rest } = this;
    const kept = KEPT.exec(rest)?.[0];
    if (kept) {
      this.take(kept);
      // "-" may be escaped in sets only.
      return kept === "\\-" && !inSet ? "-" : kept;
    }
    const plain = PLAIN.exec(rest)?.[0];
    if (plain) return this.take(plain).slice(1);
    const code = CODE.exec(rest);
    if (code) {
      this.take(code[0]);
      return `\\u{${code[1] ?? code[2] ?? code[3]}}`;
    }
    const property = PROPERTY.exec(rest);
    if (property) {
      const [text, kind, not, name] = property as unknown as [string, string, string, string];
      this.take(text);
      const opposite = (kind === "P") !== (not === "^");
      return `\\${opposite ? "P" : "p"}{${this.property(name)}}`;
    }
    const letter = rest[1] ?? "";
    const known = CLASSES[letter.toLowerCase()];
    if (!known) return this.refuse(`\\${letter}`);
    this.take(`\\${letter}`);
    if (letter === letter.toLowerCase()) return inSet ? known : `[${known}]`;
    if (!inSet) return `[^${known}]`;
    if (letter === "W") return this.refuse("\\W in a set");
    return known.replace("\\p", "\\P");
  }

  private property(name: string): string {
    for (const found of [name, `Script=${name}`]) {
      try {
        new RegExp(`\\p{${found}}`, "u");
        return found;
      } catch {
        // Perhaps the other.
      }
    }
    return this.refuse(`the property ${name}`);
  }

  private set(): string {
    let code = this.take("[");
    if (this.rest.startsWith("^")) code += this.take("^");
    const begun = this.at;
    for (;;) {
      const { rest } = this;
      if (!rest) return this.refuse("a set has no end");
      const character = String.fromCodePoint(rest.codePointAt(0) as number);
      if (character === "]" && this.at > begun) return code + this.take("]");
      if (character === "[" || rest.startsWith("&&") || character === "]")
        return this.refuse("a set in a set");
      if (character === "\\") code += this.escape(true);
      else if (this.groups.at(-1) && rest[1] === "-") return this.refuse("a range that ignores case");
      else {
        this.take(character);
        const text = /[\^$.*+?(){}|/]/.test(character) ? `\\${character}` : character;
        code += this.groups.at(-1) ? anyCase(text).replace(/[[\]]/g, "") : text;
      }
    }
  }
}

/** Unicode's simple case folding: K and s have a third form. */
function anyCase(character: string): string {
  const forms = new Set([character, character.toLowerCase(), character.toUpperCase()]);
  if (forms.has("s")) forms.add("\u017f");
  if (forms.has("k")) forms.add("\u212a");
  const single = [...forms].filter((form) => [...form].length === 1);
  return single.length === 1 ? character : `[${single.join("")}]`;
}
