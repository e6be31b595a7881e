import type { ErrorReport } from "../protocol/messages";
import { gpuErrorKind, wordOfLoss } from "./errors";
import { tidyGpuMessage } from "./gpu_text";

const FILTERS = ["validation", "out-of-memory", "internal"] as const;

/**
 * Captures the GPU errors of what is called between this and the returned function, which ends the capture at
 * once and promises the first error. No `await` may stand between the two: the scopes are a stack of the device.
 */
export function captureErrors(device: GPUDevice): () => Promise<ErrorReport | null> {
  for (const filter of FILTERS) device.pushErrorScope(filter);
  return () =>
    Promise.all(FILTERS.map(() => device.popErrorScope())).then(
      (errors) => {
        const error = errors.find((found) => found !== null);
        if (!error) return null;
        const kind = gpuErrorKind(error);
        const message = `GPU ${kind} error: ${tidyGpuMessage(error.message)}`;
        return { kind, message, gpu_message: error.message };
      },
      // Only a lost device rejects; whoever waits for results learns of that by itself (Gpu.guard).
      async (cause: unknown) => {
        await wordOfLoss(device);
        return { kind: "device-lost" as const, message: String(cause) };
      },
    );
}
