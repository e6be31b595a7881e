import { countOf, type Fields, fieldsOf } from "./file";

/** The ids of one piece of text. */
export type Tokenize = (piece: string) => readonly number[];

export interface TokenModel {
  tokenize: Tokenize;
  vocabulary: ReadonlyMap<string, number>;
}

/** Above it keys of pairs of ids would not be exact. */
const MOST_IDS = 0x200000;

export function vocabularyOf(fields: Fields): Map<string, number> {
  const found = fieldsOf(fields.vocab, "the vocabulary");
  return new Map(Object.entries(found).map(([token, id]) => [token, idOf(id)]));
}

export function idOf(value: unknown): number {
  const id = countOf(value, "the id of a token");
  return id < MOST_IDS ? id : countOf(-1, `the id ${id} of a token`);
}
