import * as tvmjs from "./tvmjs/tvmjs.js";
import { tvmjsEmbedder } from "./embedders.js";

export function start() {
  return tvmjsEmbedder(tvmjs, async (path) => new Uint8Array(await (await fetch(path)).arrayBuffer()));
}
