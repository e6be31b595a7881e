import { useEffect, useState } from "preact/hooks";
import type { Graph } from "../api/types";
import type { Layout } from "./layout";

export type LayoutState = { layout: Layout } | { error: string } | null;

/** Lays out in a worker, so that the page stays usable meanwhile; without workers, here. */
export function useLayout(graph: Graph): LayoutState {
  const [state, setState] = useState<LayoutState>(null);
  useEffect(() => {
    let worker: Worker | null = null;
    let stale = false;
    const take = (layout: Layout) => !stale && setState({ layout });
    const here = () =>
      import("./layout").then(
        ({ layoutGraph }) => take(layoutGraph(graph)),
        (reason: unknown) => !stale && setState({ error: String(reason) }),
      );
    setState(null);
    try {
      worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
      worker.addEventListener("message", (message: MessageEvent<Layout>) => take(message.data));
      worker.addEventListener("error", () => void here());
      worker.postMessage(graph);
    } catch {
      void here();
    }
    return () => {
      stale = true;
      worker?.terminate();
    };
  }, [graph]);
  return state;
}
