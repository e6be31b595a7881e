import type { Graph } from "../api/types";
import { layoutGraph } from "./layout";

self.addEventListener("message", (message: MessageEvent<Graph>) => {
  self.postMessage(layoutGraph(message.data));
});
