/** Which repeated blocks are open, and the outline that follows from it. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Graph } from "../api/types";
import { openFrom, openText } from "./address";
import { around, everything, type Foldable, foldable, type Outline, outline } from "./outline";

export interface OutlineControl {
  found: Foldable;
  outline: Outline;
  open: ReadonlySet<string>;
  /** Is there anything to fold? */
  folds: boolean;
  toggle: (id: string) => void;
  foldAll: () => void;
  openAll: () => void;
}

/**
 * What stands around the selected node is opened, for it to be seen. `given`: what the address says of open blocks;
 * `keep` is told what it is to say when somebody has folded or opened one.
 */
export function useOutline(
  graph: Graph,
  selected: string | null,
  given: string | null,
  keep: (text: string | null) => void,
): OutlineControl {
  const found = useMemo(() => foldable(graph), [graph]);
  const [open, setOpen] = useState(() => openFrom(given, found));
  const kept = useRef(given);
  const needed = useMemo(() => (selected === null ? [] : around(found.groups, selected)), [found, selected]);
  const opened = (old: ReadonlySet<string>) =>
    needed.every((id) => old.has(id)) ? old : new Set([...old, ...needed]);
  useEffect(() => setOpen(opened), [needed]);
  useEffect(() => {
    // Back and forth in the history: what was open there. What is there because of `keep` was folded or opened here.
    if (given === kept.current) return;
    kept.current = given;
    setOpen(opened(openFrom(given, found)));
  }, [given]);
  const change = (next: ReadonlySet<string>) => {
    setOpen(next);
    kept.current = openText(next, found);
    keep(kept.current);
  };
  const toggle = (id: string) => {
    const next = new Set(open);
    if (!next.delete(id)) next.add(id);
    change(next);
  };
  return {
    found,
    outline: useMemo(() => outline(found, open), [found, open]),
    open,
    folds: found.groups.length > 0,
    toggle,
    foldAll: () => change(new Set()),
    openAll: () => change(new Set(everything(found.groups))),
  };
}
