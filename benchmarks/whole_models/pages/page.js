import { passes, watch } from "./passes.js";
import { report, runtime, started, what } from "./session.js";

const ARRAYS = { float32: Float32Array, float16: Uint16Array, int32: Int32Array, int64: BigInt64Array };

async function bytes(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.arrayBuffer();
}

/** A float16, by its bits. */
function half(bits) {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  const size =
    exponent === 31
      ? fraction ? Number.NaN : Number.POSITIVE_INFINITY
      : exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction;
  return bits & 0x8000 ? -size : size;
}

/** The largest difference, to the largest number of what is expected. */
function difference(found, expected, dtype) {
  const number = (array, at) => (dtype === "float16" && array instanceof Uint16Array ? half(array[at]) : array[at]);
  let [most, off] = [0, 0];
  if (found.length !== expected.length) return Number.POSITIVE_INFINITY;
  for (let at = 0; at < expected.length; at++) {
    const wanted = number(expected, at);
    most = Math.max(most, Math.abs(wanted));
    const apart = Math.abs(number(found, at) - wanted);
    off = apart <= off ? off : apart; // NaN is none
  }
  return off / most;
}

/** `calls` of the model, each waited for, whose compute passes are watched: the GPU's time of each in ms. */
async function measured() {
  if (what === "start") return started();
  const [kind, name, calls] = runtime.split(" ");
  const folder = `models/${name}`;
  const { inputs, result } = await (await fetch(`${folder}/asked.json`)).json();
  const given = {};
  for (const [input, { dtype, shape }] of Object.entries(inputs))
    given[input] = { dtype, shape, data: new ARRAYS[dtype](await bytes(`${folder}/${input}.bin`)) };
  const expected = new ARRAYS[result.dtype](await bytes(`${folder}/result.bin`));
  const { start } = await import(["ort", "tfjs"].includes(kind) ? `./${kind}.js` : "./tapml.js");
  const run = await start(folder, kind, given, result.name);
  const begun = performance.now();
  const off = difference(await run(), expected, result.dtype);
  const first = performance.now() - begun;
  // Pipelines, buffers of each size, and the GPU's clock.
  for (let call = 0; call < 3; call++) await run();
  const times = [];
  const whole = [];
  let count = null;
  for (let call = 0; call < Number(calls); call++) {
    const from = performance.now();
    await run();
    whole.push(performance.now() - from);
  }
  for (let call = 0; call < Number(calls); call++) {
    watch();
    await run();
    const found = await passes();
    if (!found) break;
    times.push(found.busy / 1e6);
    count = found.count;
  }
  return { off, first, whole, gpu: times, passes: count };
}

await report(measured);
