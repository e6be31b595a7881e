import * as ort from "./ort/ort.jspi.bundle.min.mjs";

const { InferenceSession, Tensor } = ort;

export async function start() {
  const model = new Uint8Array(await (await fetch("ort/tiny.onnx")).arrayBuffer());
  const { layers, groups, size } = await (await fetch("asked.json")).json();
  const names = Array.from({ length: layers }, (_, layer) => [`${layer}.key`, `${layer}.value`]).flat();
  const session = await InferenceSession.create(model, {
    executionProviders: ["webgpu"],
    // Keys and values stay where they are; logits are read, as with the other.
    preferredOutputLocation: Object.fromEntries(names.map((name) => [`present.${name}`, "gpu-buffer"])),
  });
  const empty = () => new Tensor("float32", new Float32Array(0), [1, groups, 0, size]);
  return async (prompt, tokens, decoding = () => {}) => {
    const begun = performance.now();
    let first = begun;
    let past = Object.fromEntries(names.map((name) => [name, empty()]));
    const ids = [];
    for (let given = prompt, total = 0; ids.length < tokens; given = ids.slice(-1)) {
      total += given.length;
      const outputs = await session.run({
        input_ids: new Tensor("int64", BigInt64Array.from(given, BigInt), [1, given.length]),
        seqlens_k: new Tensor("int32", Int32Array.of(total - 1), [1]),
        total: new Tensor("int32", Int32Array.of(total), []),
        ...Object.fromEntries(names.map((name) => [`past.${name}`, past[name]])),
      });
      const logits = outputs.logits.data;
      ids.push(logits.indexOf(logits.reduce((a, b) => Math.max(a, b))));
      for (const name of names) past[name].dispose();
      past = Object.fromEntries(names.map((name) => [name, outputs[`present.${name}`]]));
      if (ids.length > 1) continue;
      first = performance.now();
      decoding();
    }
    for (const name of names) past[name].dispose();
    return { ids, prefillSeconds: (first - begun) / 1000, decodeSeconds: (performance.now() - first) / 1000 };
  };
}
