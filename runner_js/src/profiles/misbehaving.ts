/** Devices that break WebGPU's promises about order. */
import { override } from "./override";

/** For how many turns of the event loop passes wait though somebody asked whether they are done. */
const PATIENCE = 100;

const nextTurn = () => new Promise((resolve) => setTimeout(resolve, 0));

/**
 * A Safari preview: the queue says that it is done as soon as it is asked, and what is mapped then shows what was there
 * before the work: zeros.
 */
export function earlyDone(device: GPUDevice): void {
  changeQueue(device, () => ({ onSubmittedWorkDone: () => Promise.resolve(undefined) }));
  changeStagings(device, (staging) => {
    const getMappedRange = staging.getMappedRange.bind(staging);
    return {
      getMappedRange: (offset?: number, size?: number) =>
        new ArrayBuffer(getMappedRange(offset, size).byteLength),
    };
  });
}

/**
 * Passes wait until somebody asks for their results, and what `writeBuffer` writes meanwhile is there before them: what
 * CubeCL's runtime made of wgpu.
 */
export function earlyWrite(device: GPUDevice): void {
  const waiting: GPUCommandBuffer[] = [];
  let flush = () => {};
  changeQueue(device, (queue) => {
    const submit = queue.submit.bind(queue);
    const done = queue.onSubmittedWorkDone.bind(queue);
    flush = () => submit(waiting.splice(0));
    return {
      submit: (buffers: Iterable<GPUCommandBuffer>) => void waiting.push(...buffers),
      async onSubmittedWorkDone() {
        // Not at once: whoever goes on recording without waiting is the one who is deceived. Turns of the event loop are
        // counted, not time: on a busy machine the recording is late by as much as they are.
        for (let turn = 0; turn < PATIENCE && waiting.length; turn++) await nextTurn();
        flush();
        await done();
      },
    };
  });
  changeStagings(device, (staging) => {
    const mapAsync = staging.mapAsync.bind(staging);
    return {
      mapAsync(mode: GPUMapModeFlags, offset?: number, size?: number) {
        flush();
        return mapAsync(mode, offset, size);
      },
    };
  });
}

function changeQueue(device: GPUDevice, change: (queue: GPUQueue) => Record<string, unknown>): void {
  const { queue } = device;
  override(queue, change(queue));
  // Not every implementation gives the same object each time.
  override(device, { queue });
}

/** Buffers that can be mapped for reading. */
function changeStagings(device: GPUDevice, change: (staging: GPUBuffer) => Record<string, unknown>): void {
  const createBuffer = device.createBuffer.bind(device);
  override(device, {
    createBuffer(descriptor: GPUBufferDescriptor) {
      const buffer = createBuffer(descriptor);
      if (descriptor.usage & GPUBufferUsage.MAP_READ) override(buffer, change(buffer));
      return buffer;
    },
  });
}
