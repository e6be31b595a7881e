import * as ort from "./ort/ort.jspi.bundle.min.mjs";
import { ortEmbedder } from "./embedders.js";

const MODEL = "models/minilm/onnx/model.onnx";

export async function start() {
  // In the Cache API, where the others keep weights: the browser's HTTP cache takes no file of this size.
  const cache = await caches.open("models");
  let found = await cache.match(MODEL);
  if (!found) {
    found = await fetch(MODEL);
    // Nobody waits for it.
    void cache.put(MODEL, found.clone());
  }
  return ortEmbedder(ort, new Uint8Array(await found.arrayBuffer()));
}
