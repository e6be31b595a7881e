import { bytesOf, decoded, fromBytes } from "./bytes";
import { byType, countOf, type Fields, fail, flagOf, optional, sequenceOf, textOf } from "./file";
import { patternOf } from "./pattern";

/** Texts of tokens to pieces of the text, which are joined. */
export type Decode = (tokens: string[]) => string[];

/** Refuses a decoder that is not supported. */
export function decoderOf(value: unknown): Decode {
  return (
    optional(value, (found) => byType(found, "the decoder", KNOWN)) ??
    ((tokens) => tokens.map((token, number) => (number ? ` ${token}` : token)))
  );
}

const KNOWN: Record<string, (fields: Fields) => Decode> = {
  ByteLevel: () => (tokens) => [decoded(tokens.flatMap(fromBytes))],
  WordPiece: (fields) => {
    const prefix = textOf(fields.prefix ?? "##", "the prefix of WordPiece");
    const clean = flagOf(fields.cleanup, true) ? cleaned : (text: string) => text;
    return (tokens) =>
      tokens.map((token, number) => {
        if (number === 0) return clean(token);
        return clean(token.startsWith(prefix) ? token.slice(prefix.length) : ` ${token}`);
      });
  },
  Metaspace: (fields) => {
    const sign = textOf(fields.replacement ?? "▁", "the replacement of Metaspace");
    const scheme = fields.prepend_scheme ?? (flagOf(fields.add_prefix_space, true) ? "always" : "never");
    return (tokens) =>
      tokens.map((token, number) => token.replaceAll(sign, number === 0 && scheme !== "never" ? "" : " "));
  },
  BPEDecoder: (fields) => {
    const suffix = textOf(fields.suffix ?? "</w>", "the suffix of BPEDecoder");
    return (tokens) =>
      tokens.map((token, number) => token.replaceAll(suffix, number === tokens.length - 1 ? "" : " "));
  },
  ByteFallback: () => byteFallback,
  Fuse: () => (tokens) => [tokens.join("")],
  Strip: (fields) => {
    const content = textOf(fields.content, "the content of Strip");
    const [start, stop] = [countOf(fields.start, "start of Strip"), countOf(fields.stop, "stop of Strip")];
    if ([...content].length !== 1) fail("the content of Strip is no single character");
    return (tokens) =>
      tokens.map((token) => {
        const characters = Array.from(token);
        let [begin, end] = [0, characters.length];
        while (begin < Math.min(start, characters.length) && characters[begin] === content) begin++;
        while (characters.length - end < stop && end > 0 && characters[end - 1] === content) end--;
        return characters.slice(begin, Math.max(begin, end)).join("");
      });
  },
  Replace: (fields) => {
    const pattern = patternOf(fields.pattern, "Replace");
    const content = textOf(fields.content, "the content of Replace");
    return (tokens) => tokens.map((token) => token.replace(pattern, () => content));
  },
  Sequence: (fields) => {
    const all = sequenceOf(fields, "decoders", decoderOf);
    return (tokens) => all.reduce((done, decode) => decode(done), tokens);
  },
};

/** Spaces that belong to no English text; of each token by itself. */
function cleaned(text: string): string {
  const pairs: [string, string][] = [
    [" .", "."],
    [" ?", "?"],
    [" !", "!"],
    [" ,", ","],
    [" ' ", "'"],
    [" n't", "n't"],
    [" 'm", "'m"],
    [" do not", " don't"],
    [" 's", "'s"],
    [" 've", "'ve"],
    [" 're", "'re"],
  ];
  return pairs.reduce((done, [from, to]) => done.replaceAll(from, to), text);
}

function byteFallback(tokens: string[]): string[] {
  const found: string[] = [];
  let bytes: number[] = [];
  const flush = () => {
    if (!bytes.length) return;
    const text = decoded(bytes);
    const whole = bytesOf(text).every((byte, at) => byte === bytes[at]);
    found.push(...(whole && bytesOf(text).length === bytes.length ? [text] : bytes.map(() => "\ufffd")));
    bytes = [];
  };
  for (const token of tokens) {
    const byte = /^<0x([0-9A-Fa-f]{2})>$/.exec(token)?.[1];
    if (byte) bytes.push(Number.parseInt(byte, 16));
    else {
      flush();
      found.push(token);
    }
  }
  flush();
  return found;
}
