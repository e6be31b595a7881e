import { bytesOf, byteToken } from "./bytes";
import { type Fields, fail, flagOf, listOf, optional, textOf } from "./file";
import { Heap } from "./heap";
import { type TokenModel, vocabularyOf } from "./vocabulary";

interface Merge {
  rank: number;
  id: number;
}

/** A part of a word while its parts are merged. */
interface Part {
  id: number;
  previous: number;
  next: number;
}

export function bpe(fields: Fields): TokenModel {
  if (fields.dropout) fail("the dropout of BPE is not supported");
  const vocabulary = vocabularyOf(fields);
  const prefix =
    optional(fields.continuing_subword_prefix, (text) => textOf(text, "the prefix of BPE")) ?? "";
  const suffix = optional(fields.end_of_word_suffix, (text) => textOf(text, "the suffix of BPE")) ?? "";
  const merges = mergesOf(fields, vocabulary, prefix);
  const whole = flagOf(fields.ignore_merges, false);
  const bytes = flagOf(fields.byte_fallback, false);
  const fuse = flagOf(fields.fuse_unk, false);
  const unknown = optional(fields.unk_token, (token) => {
    const name = textOf(token, "the unknown token of BPE");
    return vocabulary.get(name) ?? fail(`${name} is not in the vocabulary`);
  });

  const single = (piece: string): number[] => {
    const characters = Array.from(piece);
    const ids: number[] = [];
    let pending = 0;
    const flush = () => {
      for (; pending > 0; pending--) ids.push(unknown as number);
    };
    characters.forEach((character, number) => {
      const begun = number > 0 ? prefix + character : character;
      const token = number === characters.length - 1 ? begun + suffix : begun;
      const id = vocabulary.get(token);
      if (id !== undefined) {
        flush();
        ids.push(id);
        return;
      }
      const all = bytes ? Array.from(bytesOf(token), (byte) => vocabulary.get(byteToken(byte))) : [];
      if (bytes && all.every((found) => found !== undefined)) ids.push(...all);
      else if (unknown !== null) {
        if (!fuse) flush();
        pending = 1;
      }
    });
    flush();
    return ids;
  };

  const tokenize = (piece: string) => {
    const id = whole ? vocabulary.get(piece) : undefined;
    return id !== undefined ? [id] : merged(single(piece), merges);
  };
  return { tokenize, vocabulary };
}

function mergesOf(fields: Fields, vocabulary: ReadonlyMap<string, number>, prefix: string) {
  const found = new Map<number, Merge>();
  const known = (token: string) =>
    vocabulary.get(token) ?? fail(`a merge names ${token.slice(0, 100)}, which is not in the vocabulary`);
  listOf(fields.merges, "the merges of BPE").forEach((entry, rank) => {
    const pair = typeof entry === "string" ? entry.split(" ") : listOf(entry, "a merge");
    if (pair.length !== 2) fail("a merge is no pair of tokens");
    const [a, b] = [textOf(pair[0], "a merge"), textOf(pair[1], "a merge")];
    found.set(key(known(a), known(b)), { rank, id: known(a + b.slice(prefix.length)) });
  });
  return found;
}

/** Of two ids, below 2^53 for those of real vocabularies. */
const key = (a: number, b: number) => a * 0x200000 + b;

/** Merge the pair of least rank, the leftmost of several, until none is left. */
function merged(ids: readonly number[], merges: ReadonlyMap<number, Merge>): readonly number[] {
  if (ids.length < 2) return ids;
  const parts: Part[] = ids.map((id, at) => ({ id, previous: at - 1, next: at + 1 }));
  const heap = new Heap<{ at: number; rank: number; id: number; pair: number }>(
    (a, b) => a.rank - b.rank || a.at - b.at,
  );
  const look = (at: number) => {
    const part = parts[at];
    const next = part && parts[part.next];
    if (!part || !next) return;
    const pair = key(part.id, next.id);
    const merge = merges.get(pair);
    if (merge) heap.push({ at, rank: merge.rank, id: merge.id, pair });
  };
  for (let at = 0; at + 1 < parts.length; at++) look(at);
  for (let top = heap.pop(); top; top = heap.pop()) {
    const part = parts[top.at] as Part;
    const next = parts[part.next];
    // One of the two has become part of another since.
    if (part.id < 0 || !next || key(part.id, next.id) !== top.pair) continue;
    part.id = top.id;
    next.id = -1;
    part.next = next.next;
    const after = parts[next.next];
    if (after) after.previous = top.at;
    look(part.previous);
    look(top.at);
  }
  return parts.filter(({ id }) => id >= 0).map(({ id }) => id);
}
