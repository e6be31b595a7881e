import * as ort from "./ort/ort.jspi.bundle.min.mjs";

const { InferenceSession, Tensor } = ort;

/**
 * `kind`: "peer" keeps keys and values in buffers of all places that there may be, in which a call puts its own, as
 * onnxruntime-genai does; "peer-grows" gets new ones of each call, as transformers.js does.
 */
export async function start(name, { capacity }, kind) {
  const bytes = async (file) => {
    const response = await fetch(`peers/${name}/${file}`);
    if (!response.ok) throw new Error(`${file}: ${response.status}`);
    return new Uint8Array(await response.arrayBuffer());
  };
  const { layers, groups, size, half, files } = JSON.parse(new TextDecoder().decode(await bytes("peer.json")));
  const externalData = [];
  for (const [path, { bytes: length, turned }] of Object.entries(files)) {
    const period = await bytes(`${path}.period`);
    externalData.push({ path, data: turned ? columns(period, ...turned) : repeated(period, length) });
  }
  const names = Array.from({ length: layers }, (_, layer) => [`${layer}.key`, `${layer}.value`]).flat();
  const presents = names.map((one) => `present.${one}`);
  const session = await InferenceSession.create(await bytes("model.onnx"), {
    executionProviders: ["webgpu"],
    externalData,
    preferredOutputLocation: Object.fromEntries([...presents, "logits"].map((one) => [one, "gpu-buffer"])),
  });
  externalData.length = 0;
  const device = await ort.env.webgpu.device;
  const dtype = half ? "float16" : "float32";
  const shared = kind === "peer";
  const none = () => new Tensor(dtype, half ? new Float16Array(0) : new Float32Array(0), [1, groups, 0, size]);
  const kept = () => {
    const dims = [1, groups, capacity, size];
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const buffer = device.createBuffer({ size: groups * capacity * size * (half ? 2 : 4), usage });
    return Tensor.fromGpuBuffer(buffer, { dataType: dtype, dims });
  };
  let past = shared ? names.map(kept) : [];

  async function run(text, begin, end) {
    const held = past.length ? past : names.map(none);
    const inputs = {
      input_ids: new Tensor("int64", BigInt64Array.from(text.slice(begin, end), BigInt), [1, end - begin]),
      attention_mask: new Tensor("int64", new BigInt64Array(end).fill(1n), [1, end]),
      ...Object.fromEntries(names.map((one, at) => [`past_key_values.${one}`, held[at]])),
    };
    if (!shared) return session.run(inputs);
    return session.run(inputs, { logits: null, ...Object.fromEntries(presents.map((one, at) => [one, held[at]])) });
  }
  const ended = (outputs) => {
    outputs.logits.dispose();
    if (!shared) for (const one of presents) outputs[one].dispose();
  };

  return {
    async call(text, begin, end) {
      ended(await run(text, begin, end));
      await device.queue.onSubmittedWorkDone();
    },
    async fill(text, end) {
      const outputs = await run(text, 0, end);
      if (!shared) past = presents.map((one) => outputs[one]);
      outputs.logits.dispose();
    },
    async logits(text, begin, end) {
      const outputs = await run(text, begin, end);
      const data = await outputs.logits.getData();
      const found = Array.from(data instanceof Uint16Array ? new Float16Array(data.buffer, data.byteOffset, data.length) : data);
      ended(outputs);
      return found;
    },
  };
}

/** `length` bytes: the period again and again. */
function repeated(period, length) {
  const found = new Uint8Array(length);
  found.set(period.subarray(0, length));
  for (let filled = Math.min(period.length, length); filled < length; filled *= 2)
    found.copyWithin(filled, 0, Math.min(filled, length - filled));
  return found;
}

/** The float16 of a matrix of so many rows and columns, whose numbers are the period again and again, column by column. */
function columns(period, rows, width) {
  const numbers = new Uint16Array(period.buffer);
  const found = new Uint16Array(rows * width);
  for (let column = 0, to = 0; column < width; column++)
    for (let row = 0, from = column; row < rows; row++, from += width) found[to++] = numbers[from % numbers.length];
  return new Uint8Array(found.buffer);
}
