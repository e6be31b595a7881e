/** Drafts outlive the pane that they are typed in, and a reload of the tab: nobody loses what they have not saved. */

import { useEffect, useState } from "preact/hooks";
import type { TextFile } from "../api/types";
import { type Draft, isUnsaved, settled, typed } from "../model/drafts";

const REMEMBERED = "tapml.drafts";

const drafts = new Map<string, Draft>(remembered());

export interface Drafts {
  of(file: TextFile): Draft | undefined;
  type(file: TextFile, text: string): void;
  set(file: TextFile, draft: Draft | undefined): void;
  /** Texts of these files that are not on disk, by name. */
  unsaved(files: readonly TextFile[]): Record<string, string>;
}

/** Those of one suite's files. */
export function useDrafts(suite: string, files: readonly TextFile[]): Drafts {
  const [, setRound] = useState(0);
  const key = (file: TextFile) => `${suite}/${file.name}`;
  const set = (file: TextFile, draft: Draft | undefined) => {
    if (draft === drafts.get(key(file))) return;
    if (draft === undefined) drafts.delete(key(file));
    else drafts.set(key(file), draft);
    remember();
    setRound((round) => round + 1);
  };
  const read = files.map((file) => file.digest).join(" ");
  // When a file was read again.
  useEffect(() => {
    for (const file of files) set(file, settled(drafts.get(key(file)), file));
  }, [suite, read]);
  return {
    of: (file) => drafts.get(key(file)),
    type: (file, text) => set(file, typed(drafts.get(key(file)), file, text)),
    set,
    unsaved: (some) =>
      Object.fromEntries(
        some.flatMap((file) => {
          const draft = drafts.get(key(file));
          return isUnsaved(draft) ? [[file.name, draft.text]] : [];
        }),
      ),
  };
}

function remembered(): [string, Draft][] {
  try {
    const stored: unknown = JSON.parse(sessionStorage.getItem(REMEMBERED) ?? "[]");
    return Array.isArray(stored) ? stored : [];
  } catch {
    return [];
  }
}

function remember(): void {
  try {
    sessionStorage.setItem(REMEMBERED, JSON.stringify([...drafts]));
  } catch {
    // Storage may be full or forbidden: then a reload loses them.
  }
}
