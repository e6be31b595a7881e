import type { CompiledModel, Shard } from "../compiled/generated/model";
import type { Source } from "./source";
import { widened } from "./stored";

/** Shards under way at a time: as many as browsers fetch from one server by HTTP/1.1. */
const CONCURRENCY = 6;

/** Streams all shards into the weight buffers, each as soon as its digest is right and there is room. */
export async function loadWeights(
  { weights }: CompiledModel,
  source: Source,
  device: GPUDevice,
  room: Promise<readonly GPUBuffer[]>,
  received: (bytes: number) => void,
  signal: AbortSignal,
): Promise<void> {
  let next = 0;
  const work = async () => {
    while (next < weights.shards.length) {
      const index = next++;
      const { buffer, offset, stored } = weights.shards[index] as Shard;
      const data = widened(await source.shard(index, received, signal), stored);
      const buffers = await room;
      signal.throwIfAborted();
      write(device, buffers[buffer] as GPUBuffer, offset, data);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
}

function write(device: GPUDevice, buffer: GPUBuffer, offset: number, data: Uint8Array<ArrayBuffer>): void {
  const whole = data.length & ~3;
  if (whole) device.queue.writeBuffer(buffer, offset, data, 0, whole);
  if (whole === data.length) return;
  const tail = new Uint8Array(4);
  tail.set(data.subarray(whole));
  device.queue.writeBuffer(buffer, offset + whole, tail);
}
