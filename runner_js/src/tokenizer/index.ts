/** @tapml/runtime/tokenizer: text to tokens and back, by the tokenizer.json of a model (docs/runtime.md). */
import { addedTokensOf, splitter } from "./added";
import { decoderOf } from "./decode";
import { countOf, fail, fieldsOf } from "./file";
import { paddingOf, truncatedTo, truncationOf, unpadded, untruncated } from "./length";
import { modelOf } from "./models";
import { normalizerOf } from "./normalize";
import { preTokenizerOf } from "./pretokenize";
import { processorOf, unprocessed } from "./process";

export { TokenizerError } from "./error";

export interface EncodeOptions {
  /** A second text, as of a question and an answer. */
  pair?: string | undefined;
  /** Whether special tokens are put around the text: they are if nothing is said. */
  specialTokens?: boolean | undefined;
  /** As the file says if nothing is said; false: never; a number: to that many tokens. */
  truncation?: boolean | number | undefined;
  /** As the file says if nothing is said; false: never. */
  padding?: boolean | undefined;
}

/** Of equal lengths: ids, 1 where there is a token and 0 where there is padding, and to which text each belongs. */
export interface Encoding {
  ids: number[];
  attentionMask: number[];
  typeIds: number[];
}

export interface DecodeOptions {
  /** Whether special tokens are left out: they are if nothing is said. */
  skipSpecialTokens?: boolean | undefined;
}

/** Text to tokens and back as Hugging Face's tokenizers do it. */
export class Tokenizer {
  readonly #encodeText: (text: string) => number[];
  readonly #process;
  readonly #truncate;
  readonly #pad;
  readonly #decode;
  readonly #special: ReadonlySet<number>;
  readonly #tokens: ReadonlyMap<number, string>;
  readonly #ids: ReadonlyMap<string, number>;

  /**
   * `json`: a tokenizer.json, as text (what `model.tokenizer()` gives) or as it was parsed.
   * Throws a TokenizerError that names what is wrong with it or is not supported.
   */
  constructor(json: string | object) {
    const file = fieldsOf(typeof json === "string" ? parsed(json) : json, "its file");
    const model = modelOf(file.model);
    const added = addedTokensOf(file.added_tokens);
    const split = splitter(added, normalizerOf(file.normalizer));
    const preTokenize = preTokenizerOf(file.pre_tokenizer);
    this.#encodeText = (text) => {
      const ids: number[] = [];
      split(text).forEach((part, number) => {
        if (part.id !== null) ids.push(part.id);
        else {
          for (const piece of preTokenize([{ text: part.text, first: number === 0 }])) {
            for (const id of model.tokenize(piece.text)) ids.push(id);
          }
        }
      });
      return ids;
    };
    this.#process = processorOf(file.post_processor);
    this.#truncate = truncationOf(file.truncation);
    this.#pad = paddingOf(file.padding);
    this.#decode = decoderOf(file.decoder);
    this.#special = new Set(added.filter(({ special }) => special).map(({ id }) => id));
    const own = added.map(({ content, id }) => [content, id] as const);
    this.#ids = new Map([...model.vocabulary, ...own]);
    this.#tokens = new Map([...this.#ids].map(([token, id]) => [id, token]));
  }

  /** Throws a TokenizerError where a part of the text has no token. */
  encode(text: string, options: EncodeOptions = {}): Encoding {
    const { pair, specialTokens = true, truncation = true, padding = true } = options;
    const process = specialTokens ? this.#process : unprocessed;
    const texts = pair === undefined ? [text] : [text, pair];
    const encoded = texts.map((one) => this.#encodeText(wellFormed(one)));
    const truncate =
      typeof truncation === "number"
        ? truncatedTo(countOf(truncation, "truncation"))
        : truncation
          ? this.#truncate
          : untruncated;
    const { ids, types, mask } = (padding ? this.#pad : unpadded)(
      process(truncate(encoded, process.added(texts.length > 1))),
    );
    return { ids, attentionMask: mask, typeIds: types };
  }

  /** Ids that stand for no token are left out. */
  decode(ids: Iterable<number>, { skipSpecialTokens = true }: DecodeOptions = {}): string {
    const tokens: string[] = [];
    for (const id of ids) {
      const token = this.#tokens.get(id);
      if (token !== undefined && !(skipSpecialTokens && this.#special.has(id))) tokens.push(token);
    }
    return this.#decode(tokens).join("");
  }

  /** The token of an id, as the vocabulary spells it. */
  token(id: number): string | undefined {
    return this.#tokens.get(id);
  }

  /** The id of a token, as the vocabulary spells it. */
  id(token: string): number | undefined {
    return this.#ids.get(token);
  }

  get size(): number {
    return this.#tokens.size;
  }
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch (cause) {
    return fail(`its file is no JSON (${cause instanceof Error ? cause.message : cause})`);
  }
}

/** Halves of characters, which no text in UTF-8 has, as U+FFFD. */
function wellFormed(text: string): string {
  if (typeof text !== "string") fail("what is to be encoded is no text");
  return text.replace(/\p{Surrogate}/gu, "\ufffd");
}
