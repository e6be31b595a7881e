// How long the GPU computes, and how long it waits for a page, by timestamps that each compute pass writes at its begin and end.
const MOST = 2048; // a query set takes 4,096 timestamps

let device = null;
let watched = null;

const { requestDevice } = GPUAdapter.prototype;
GPUAdapter.prototype.requestDevice = async function (descriptor = {}) {
  const features = new Set(descriptor.requiredFeatures ?? []);
  if (this.features.has("timestamp-query")) features.add("timestamp-query");
  const made = await requestDevice.call(this, { ...descriptor, requiredFeatures: [...features] });
  if (made.features.has("timestamp-query")) device = made;
  return made;
};

const { beginComputePass } = GPUCommandEncoder.prototype;
GPUCommandEncoder.prototype.beginComputePass = function (descriptor = {}) {
  if (!watched || watched.count === MOST || descriptor.timestampWrites)
    return beginComputePass.call(this, descriptor);
  const at = 2 * watched.count++;
  const timestampWrites = {
    querySet: watched.set,
    beginningOfPassWriteIndex: at,
    endOfPassWriteIndex: at + 1,
  };
  return beginComputePass.call(this, { ...descriptor, timestampWrites });
};

/** Passes from now on are watched, until `idle`. */
export function watch() {
  if (device) watched = { set: device.createQuerySet({ type: "timestamp", count: 2 * MOST }), count: 0 };
}

/** How many passes were watched, ns in which one of them ran at least, and from the first to the last; null without timestamps. */
export async function passes() {
  if (!watched?.count) return null;
  const { set, count } = watched;
  watched = null;
  // What is encoded by now is submitted by then: passes that are not have no times.
  await new Promise((resolve) => setTimeout(resolve, 50));
  const size = 16 * count;
  const resolved = device.createBuffer({ size, usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC });
  const read = device.createBuffer({ size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  const encoder = device.createCommandEncoder();
  encoder.resolveQuerySet(set, 0, 2 * count, resolved, 0);
  encoder.copyBufferToBuffer(resolved, 0, read, 0, size);
  device.queue.submit([encoder.finish()]);
  await read.mapAsync(GPUMapMode.READ);
  const times = new BigUint64Array(read.getMappedRange().slice(0));
  for (const one of [set, resolved, read]) one.destroy();
  const spans = Array.from({ length: count }, (_, at) => [Number(times[2 * at]), Number(times[2 * at + 1])]);
  spans.sort(([a], [b]) => a - b);
  const begin = spans[0][0];
  let [busy, end] = [0, begin];
  for (const [from, to] of spans) {
    busy += Math.max(0, to - Math.max(from, end));
    end = Math.max(end, to);
  }
  return { count, busy, whole: end - begin };
}

/** The share of the time between the first watched pass and the last in which none ran; null without timestamps. */
export async function idle() {
  const found = await passes();
  return found?.whole > 0 ? 1 - found.busy / found.whole : null;
}
