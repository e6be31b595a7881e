/** The tokenizer's file is none, or asks for something that is not supported; or a text has no tokens by it. */
export class TokenizerError extends Error {
  override readonly name = "TokenizerError";
}
