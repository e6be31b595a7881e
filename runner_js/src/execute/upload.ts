import type { Engine } from "../engine/engine";
import type { Watchdog } from "../hal/gpu";
import { captureErrors } from "../hal/scopes";
import { bytesOf } from "../program/dtypes";
import type { Command, ErrorReport } from "../protocol/messages";

/** From here on bytes go to the GPU as they arrive, and are never held as a whole. */
export const WORTH_STREAMING = 8 << 20;
/** What may be on its way to the GPU at a time. */
const IN_FLIGHT = 64 << 20;

type Upload = Extract<Command, { op: "upload" }>;

/** What is on its way to the GPU; `error` is the GPU's, known later. */
export interface Uploaded {
  error: Promise<ErrorReport | null>;
}

/** A large tensor, from the network into its buffer. Throws what is wrong with the transfer. */
export async function streamUpload(
  engine: Engine,
  upload: Upload,
  signal: AbortSignal,
  watchdog: Watchdog,
): Promise<Uploaded> {
  const { gpu, buffers, commands, cache, tensors, blobs } = engine;
  const { digest } = upload;
  if (cache.has(digest)) {
    tensors.upload(upload.tensor, upload, digest, null);
    return { error: Promise.resolve(null) };
  }
  const buffer = buffers.allocate(bytesOf(upload));
  const errors = [buffer.error];
  let offset = 0;
  let sent = 0;
  try {
    for await (const piece of blobs.stream(digest, bytesOf(upload), signal)) {
      const captured = captureErrors(gpu.device);
      commands.write(buffer, offset, piece);
      errors.push(captured());
      offset += piece.byteLength;
      sent += piece.byteLength;
      if (sent >= IN_FLIGHT) {
        await gpu.guard(gpu.device.queue.onSubmittedWorkDone(), signal, watchdog);
        sent = 0;
      }
    }
  } catch (cause) {
    buffers.free(buffer);
    throw cause;
  }
  cache.adopt(digest, buffer);
  tensors.upload(upload.tensor, upload, digest, null);
  cache.release(digest);
  const error = Promise.all(errors).then((found) => {
    const report = found.find((one) => one !== null) ?? null;
    if (report) forget(engine, upload);
    return report;
  });
  return { error };
}

/** What went wrong on its way must not be taken for the bytes of its digest. */
export function forget({ tensors, cache }: Engine, { tensor, digest }: Upload): void {
  tensors.free(tensor);
  cache.discard(digest);
}
