/** The worker of a shared test: the GPU, away from the page. It is asked for before the test is here. */

import { withoutRun } from "../../../repro/verdict";
import { Blobs } from "../../engine/blobs";
import { acquireGpu } from "../../hal/gpu";
import { browserPlatform } from "../../platform/platform";
import type { Answer, Request } from "./messages";
import { runShared } from "./run";

const platform = browserPlatform();
let next: ReturnType<typeof acquireGpu> | null = acquireGpu(platform.gpu, platform);

async function run({ base, repro }: Request): Promise<Answer["outcome"]> {
  // A device of its own for each run, as it was where the test was reported.
  let gpu = await (next ?? acquireGpu(platform.gpu, platform));
  next = null;
  // It may have gone while nobody used it.
  if ("lost" in gpu && gpu.lost) gpu = await acquireGpu(platform.gpu, platform);
  if ("unavailable" in gpu) {
    const { name, userAgent } = platform;
    const adapter = { vendor: "", architecture: "", device: "", description: "none" };
    const device = { name, user_agent: userAgent, adapter, features: [], limits: {} };
    return withoutRun({ kind: "unsupported", message: gpu.unavailable }, device);
  }
  const outcome = await runShared(gpu, new Blobs(base), platform, repro);
  // A hung device would take this thread with it.
  if (!gpu.lost) gpu.device.destroy();
  return outcome;
}

self.addEventListener("message", async ({ data }: MessageEvent<Request>) => {
  const answer: Answer = { outcome: await run(data) };
  // `self` is typed as a window here; a worker's postMessage has no target origin.
  (self as unknown as Pick<Worker, "postMessage">).postMessage(answer);
});
