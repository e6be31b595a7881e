import { bytesOf } from "../program/dtypes";
import type { TensorType } from "../protocol/messages";
import { mapped } from "./download";
import { type Session, STAGING_USAGE } from "./session";
import { digestOf } from "./source";

/** Of the buffer that weights are read through, a part at a time. */
const STAGING_BYTES = 8 << 20;

/** A weight, by its place. */
export interface WeightPlace {
  buffer: number;
  offset: number;
  /** In the buffer: whole words. */
  bytes: number;
  type: TensorType;
}

/** What the device has of a weight; `data` is null where only its digest is wanted. */
export interface WeightBytes {
  digest: string;
  data: Uint8Array<ArrayBuffer> | null;
}

/** Reads weights where they are, in the order of `places`, one after the other: only those that are `kept` stay here. */
export async function readWeights(
  session: Session,
  places: readonly WeightPlace[],
  kept: boolean,
  signal: AbortSignal,
): Promise<WeightBytes[]> {
  const { gpu, allocations } = session;
  const total = places.reduce((sum, { bytes }) => sum + bytes, 0);
  if (!total) return Promise.all(places.map(() => told(new Uint8Array(0), kept)));
  const staging = await allocations.made(() =>
    allocations.make(Math.min(STAGING_BYTES, total), STAGING_USAGE),
  );
  const found: WeightBytes[] = [];
  let parts: { target: Uint8Array<ArrayBuffer>; from: number; at: number; length: number }[] = [];
  let encoder = gpu.device.createCommandEncoder();
  let used = 0;
  let whole: { target: Uint8Array<ArrayBuffer>; type: TensorType }[] = [];
  const flush = async () => {
    gpu.device.queue.submit([encoder.finish()]);
    const bytes = new Uint8Array(await mapped(gpu, staging, used, signal));
    for (const { target, from, at, length } of parts) target.set(bytes.subarray(from, from + length), at);
    staging.unmap();
    for (const { target, type } of whole) found.push(await told(target.slice(0, bytesOf(type)), kept));
    [parts, whole, used] = [[], [], 0];
    encoder = gpu.device.createCommandEncoder();
  };
  try {
    for (const { buffer, offset, bytes, type } of places) {
      const target = new Uint8Array(bytes);
      for (let at = 0; at < bytes; ) {
        if (used === staging.size) await flush();
        const length = Math.min(bytes - at, staging.size - used);
        encoder.copyBufferToBuffer(session.weightBuffer(buffer), offset + at, staging, used, length);
        parts.push({ target, from: used, at, length });
        used += length;
        at += length;
      }
      whole.push({ target, type });
    }
    await flush();
    return found;
  } finally {
    allocations.destroy(staging);
  }
}

async function told(bytes: Uint8Array<ArrayBuffer>, kept: boolean): Promise<WeightBytes> {
  return { digest: await digestOf(bytes), data: kept ? bytes : null };
}
