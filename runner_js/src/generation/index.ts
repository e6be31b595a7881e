/** @tapml/runtime/generation: texts that language models write (docs/runtime.md). */
import type { DecoderModel, Generated, GenerateOptions, Piece, TextTokenizer } from "./api";
import { Writer } from "./writer";

export type * from "./api";
export { Batch } from "./batch";
export { GenerationError, type GenerationErrorKind } from "./error";
export { Writer } from "./writer";

/** What a model writes behind a prompt, token by token. Rejects with a GenerationError, or as the model's calls do. */
export function generate(
  model: DecoderModel,
  tokenizer: TextTokenizer | null,
  options: GenerateOptions,
): AsyncGenerator<Piece, Generated, undefined> {
  return new Writer(model, tokenizer).generate(options);
}
