/** "Run on save": what was edited runs again on the chosen devices, as soon as they are free. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { ResultsState } from "../model/results";
import { due } from "../model/texts";

const REMEMBERED = "tapml.run-on-save";

export interface RunOnSave {
  on: boolean;
  set: (on: boolean) => void;
}

export function useRunOnSave(
  state: ResultsState,
  rerun: { possible: boolean; start: (kernels: string[]) => unknown },
): RunOnSave {
  const [on, setOn] = useState(remembered);
  /** Kernel -> digest that needs no run: it was there when the page was loaded, or its run was begun. */
  const seen = useRef<Record<string, string | null>>({});
  const { kernels } = state;
  useEffect(() => {
    const wanted = due(state, seen.current);
    if (wanted.length === 0) return;
    if (on && !rerun.possible) return;
    for (const kernel of wanted) seen.current[kernel] = kernels[kernel]?.digest ?? null;
    if (on) rerun.start(wanted);
  }, [kernels, on, rerun.possible]);
  const set = (next: boolean) => {
    setOn(next);
    try {
      localStorage.setItem(REMEMBERED, String(next));
    } catch {
      // Only a convenience.
    }
  };
  return { on, set };
}

function remembered(): boolean {
  try {
    return localStorage.getItem(REMEMBERED) === "true";
  } catch {
    return false;
  }
}
