/** What a token makes of a text, written alone or in a batch. */
import type { Reason } from "./api";
import type { StopText, TextStream } from "./stream";

/** A text that grows. */
export interface Growing {
  readonly done: { readonly ids: number[]; text: string };
  readonly stream: TextStream;
  readonly stops: StopText;
  /** Tokens that end it. */
  readonly ends: ReadonlyMap<number, Reason>;
  /** Tokens that are to be written at most. */
  readonly most: number;
  /** Of all its tokens. */
  readonly capacity: number;
}

/** The token at `position` is added: what of the text is certain by it, and why the text is over then, if it is. */
export function taken(
  growing: Growing,
  id: number,
  position: number,
): { text: string; reason: Reason | null } {
  const { done, stream, stops, ends, most, capacity } = growing;
  done.ids.push(id);
  let reason = ends.get(id) ?? null;
  let text = "";
  if (!reason) {
    const found = stops.push(stream.push(id));
    text = found.text;
    if (found.stopped) reason = "stop";
    else if (done.ids.length >= most) reason = "length";
    else if (position >= capacity) reason = "capacity";
  }
  if (reason) text += stops.rest();
  done.text += text;
  return { text, reason };
}
