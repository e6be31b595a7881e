import { describe, expect, it } from "vitest";
import { Tokenizer, TokenizerError } from "./index";

/** What it gives is held against Hugging Face's own by tests/tokenizer; here is what it refuses. */
const MODEL = {
  type: "WordPiece",
  unk_token: "[UNK]",
  continuing_subword_prefix: "##",
  max_input_chars_per_word: 100,
  vocab: { "[UNK]": 0, he: 1, "##llo": 2 },
};
const BPE = {
  type: "BPE",
  vocab: { a: 0, b: 1, ab: 2, abab: 3 },
  merges: ["a b", "ab ab"],
};
const tokenizer = (more: object) => new Tokenizer({ model: MODEL, ...more });
const split = (Regex: string) => ({
  pre_tokenizer: { type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false },
});

describe("what is not supported is refused by name", () => {
  const refused: [object, string][] = [
    [{ normalizer: { type: "Precompiled" } }, "the normalizer Precompiled is not supported"],
    [{ normalizer: { type: "toString" } }, "the normalizer toString is not supported"],
    [{ pre_tokenizer: { type: "UnicodeScripts" } }, "the pre-tokenizer UnicodeScripts is not supported"],
    [{ post_processor: { type: "Other" } }, "the post-processor Other is not supported"],
    [{ decoder: { type: "CTC" } }, "the decoder CTC is not supported"],
    [{ model: { type: "WordLevel" } }, "the model WordLevel is not supported"],
    [{ model: { ...BPE, dropout: 0.1 } }, "the dropout of BPE is not supported"],
    [{ model: { ...BPE, merges: ["a c"] } }, "a merge names c, which is not in the vocabulary"],
    [{ model: { ...MODEL, vocab: { a: -1 } } }, "the id of a token is no whole number from 0"],
    [{ model: { ...MODEL, vocab: [] } }, "the vocabulary is no object"],
    [split("a?+b"), "the expression a?+b is not supported: ?+"],
    [split("(?m:a)"), "the expression (?m:a) is not supported: the group (?m:a"],
    [split("\\Ga"), "the expression \\Ga is not supported: \\G"],
    [split("\\p{Nonsense}"), "is not supported: the property Nonsense"],
    [split("[a[b]]"), "is not supported: a set in a set"],
    [split("(a"), "the expression (a is not supported"],
    [{ pre_tokenizer: { type: "Punctuation", behavior: "Lost" } }, "the behavior Lost is not supported"],
    [
      { normalizer: { type: "Sequence", normalizers: [{ type: "Sequence", normalizers: [] }] } },
      "a Sequence of normalizers in another is not supported",
    ],
    [{ truncation: { max_length: 8, strategy: "Never" } }, "truncation has an unknown strategy"],
  ];
  it.each(refused)("%j", (more, sentence) => {
    expect(() => tokenizer(more)).toThrow(TokenizerError);
    expect(() => tokenizer(more)).toThrow(sentence);
  });

  it("a file that is no JSON", () => {
    expect(() => new Tokenizer("{")).toThrow(/^the tokenizer: its file is no JSON/);
    expect(() => new Tokenizer("[]")).toThrow("the tokenizer: its file is no object");
  });
});

it("a text of one endless word ends", () => {
  const long = "ab".repeat(100_000);
  expect(new Tokenizer({ model: BPE }).encode(long).ids).toEqual(new Array(50_000).fill(3));
  const spaces = `${" ".repeat(200_000)}hello${" ".repeat(200_000)}`;
  const stripped = tokenizer({ normalizer: { type: "Strip", strip_left: true, strip_right: true } });
  expect(stripped.encode(spaces).ids).toEqual([1, 2]);
});

it("halves of characters are the replacement character, and names of objects are tokens like others", () => {
  expect(tokenizer({}).encode("\ud800").ids).toEqual([0]);
  const model = JSON.parse('{"type": "WordPiece", "vocab": {"[UNK]": 0, "__proto__": 1, "constructor": 2}}');
  const found = new Tokenizer({ model, pre_tokenizer: { type: "WhitespaceSplit" } });
  expect(found.encode("__proto__ constructor toString").ids).toEqual([1, 2, 0]);
  expect(found.decode([1, 2, 7])).toBe("__proto__ constructor");
});
