/** What somebody types into a kernel's files and has not saved, and which text each was made from. */

import type { TextFile } from "../api/types";

export interface Draft {
  text: string;
  /** SHA-256 of the file's text that this one was made from. */
  was: string;
  /** Whether the file is this text by now, and the page has not read it again yet. */
  saved: boolean;
}

/** After a key stroke; undefined where nothing differs from the file any more. */
export function typed(draft: Draft | undefined, file: TextFile, text: string): Draft | undefined {
  const was = draft?.was ?? file.digest;
  return text === file.text && was === file.digest ? undefined : { text, was, saved: false };
}

/** When the file was read again; undefined where it has the text by now. */
export function settled(draft: Draft | undefined, file: TextFile): Draft | undefined {
  if (draft === undefined || draft.text === file.text) return undefined;
  return draft.saved && draft.was === file.digest ? { ...draft, saved: false } : draft;
}

/** Has somebody else written the file since? */
export function isForeign(draft: Draft | undefined, file: TextFile): boolean {
  return draft !== undefined && !draft.saved && draft.was !== file.digest && draft.text !== file.text;
}

/** Whether something is not on disk. */
export function isUnsaved(draft: Draft | undefined): draft is Draft {
  return draft !== undefined && !draft.saved;
}
