import { bytesOf, byteToken } from "./bytes";
import { countOf, type Fields, fail, flagOf, listOf, optional, textOf } from "./file";
import type { TokenModel } from "./vocabulary";

/** What a character that is no token costs more than the worst token. */
const UNKNOWN_PENALTY = 10;

/** The best way to the end of a part of the text. */
interface Best {
  score: number;
  start: number;
  unknown: boolean;
}

export function unigram(fields: Fields): TokenModel {
  const vocabulary = new Map<string, number>();
  const scores: number[] = [];
  listOf(fields.vocab, "the vocabulary").forEach((entry, id) => {
    const [token, score] = listOf(entry, "a token of Unigram");
    if (typeof score !== "number") fail("a token of Unigram has no score");
    vocabulary.set(textOf(token, "a token of Unigram"), id);
    scores.push(score as number);
  });
  const unknown = optional(fields.unk_id, (id) => countOf(id, "unk_id"));
  const bytes = flagOf(fields.byte_fallback, false);
  let worst = Number.POSITIVE_INFINITY;
  let longest = 0;
  for (const score of scores) worst = Math.min(worst, score);
  for (const token of vocabulary.keys()) longest = Math.max(longest, token.length);

  const parts = (text: string): string[] => {
    const ends = new Map<number, Best>([[0, { score: 0, start: 0, unknown: false }]]);
    const offer = (end: number, best: Best) => {
      const found = ends.get(end);
      if (!found || best.score > found.score) ends.set(end, best);
    };
    for (let start = 0; start < text.length; ) {
      const width = (text.codePointAt(start) as number) > 0xffff ? 2 : 1;
      const here = (ends.get(start) as Best).score;
      let single = false;
      for (let end = start + width; end <= Math.min(text.length, start + longest); end++) {
        const id = vocabulary.get(text.slice(start, end));
        if (id === undefined) continue;
        offer(end, { score: here + (scores[id] as number), start, unknown: id === unknown });
        single ||= end === start + width;
      }
      if (!single) {
        offer(start + width, { score: here + worst - UNKNOWN_PENALTY, start, unknown: true });
      }
      start += width;
    }
    const found: string[] = [];
    // Unknown ones beside each other are one.
    let fused = "";
    for (let end = text.length; end > 0; ) {
      const { start, unknown: none } = ends.get(end) as Best;
      if (none) fused = text.slice(start, end) + fused;
      else {
        if (fused) found.push(fused);
        fused = "";
        found.push(text.slice(start, end));
      }
      end = start;
    }
    if (fused) found.push(fused);
    return found.reverse();
  };

  const tokenize = (piece: string) =>
    parts(piece).flatMap((part) => {
      const id = vocabulary.get(part);
      if (id !== undefined) return [id];
      const all = bytes ? Array.from(bytesOf(part), (byte) => vocabulary.get(byteToken(byte))) : [];
      if (bytes && all.every((found) => found !== undefined)) return all;
      return [unknown ?? fail(`${part.slice(0, 100)} has no token, and there is none for what is unknown`)];
    });
  return { tokenize, vocabulary };
}
