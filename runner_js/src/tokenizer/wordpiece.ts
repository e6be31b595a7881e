import { countOf, type Fields, fail, textOf } from "./file";
import { type TokenModel, vocabularyOf } from "./vocabulary";

export function wordPiece(fields: Fields): TokenModel {
  const vocabulary = vocabularyOf(fields);
  const prefix = textOf(fields.continuing_subword_prefix ?? "##", "the prefix of WordPiece");
  const most = countOf(fields.max_input_chars_per_word ?? 100, "max_input_chars_per_word");
  const name = textOf(fields.unk_token ?? "[UNK]", "the unknown token of WordPiece");
  const unknown = () => [vocabulary.get(name) ?? fail(`${name} is not in the vocabulary`)];
  const tokenize = (piece: string) => {
    const characters = Array.from(piece);
    if (characters.length > most) return unknown();
    const ids: number[] = [];
    for (let start = 0; start < characters.length; ) {
      let end = characters.length;
      let id: number | undefined;
      for (; end > start && id === undefined; end--) {
        const text = characters.slice(start, end).join("");
        id = vocabulary.get(start > 0 ? prefix + text : text);
      }
      if (id === undefined) return unknown();
      ids.push(id);
      start = end + 1;
    }
    return ids;
  };
  return { tokenize, vocabulary };
}
