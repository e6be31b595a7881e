import { useEffect, useRef, useState } from "preact/hooks";
import type { Layout } from "./layout";
import type { Outline } from "./outline";

export type LayoutState = { layout: Layout } | { error: string } | null;

/** Lays out in a worker, so that the page stays usable meanwhile; without workers, here. The last layout stays until
 * the next one is there. */
export function useLayout(outline: Outline): LayoutState {
  const [state, setState] = useState<LayoutState>(null);
  const worker = useRef<Worker | null>(null);
  useEffect(() => () => worker.current?.terminate(), []);
  useEffect(() => {
    let stale = false;
    const take = (layout: Layout) => !stale && setState({ layout });
    const here = () =>
      import("./layout").then(
        ({ layoutOutline }) => take(layoutOutline(outline)),
        (reason: unknown) => !stale && setState({ error: String(reason) }),
      );
    const listening = new AbortController();
    const { signal } = listening;
    try {
      worker.current ??= new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
      // Answers come in the order of questions: one to an earlier question finds nobody listening, but may come late.
      const asked = ++questions;
      worker.current.addEventListener(
        "message",
        ({ data }: MessageEvent<{ layout: Layout; asked: number }>) =>
          data.asked === asked && take(data.layout),
        { signal },
      );
      worker.current.addEventListener("error", () => void here(), { signal });
      worker.current.postMessage({ outline, asked });
    } catch {
      void here();
    }
    return () => {
      stale = true;
      listening.abort();
    };
  }, [outline]);
  return state;
}

let questions = 0;
