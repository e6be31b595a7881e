import { bpe } from "./bpe";
import { byType } from "./file";
import { unigram } from "./unigram";
import type { TokenModel } from "./vocabulary";
import { wordPiece } from "./wordpiece";

/** Refuses a model that is not supported. */
export function modelOf(value: unknown): TokenModel {
  return byType(value, "the model", { WordPiece: wordPiece, BPE: bpe, Unigram: unigram });
}
