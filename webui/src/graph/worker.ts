import { layoutOutline } from "./layout";
import type { Outline } from "./outline";

self.addEventListener("message", ({ data }: MessageEvent<{ outline: Outline; asked: number }>) => {
  self.postMessage({ layout: layoutOutline(data.outline), asked: data.asked });
});
