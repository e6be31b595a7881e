import { loadAndCompile, loadLiteRt, Tensor } from "./litert/index.js";

/** float16 is what the GPU computes in; the model's numbers are float32. */
export async function start(folder, _, inputs) {
  const found = await fetch(`${folder}/model.tflite`);
  if (!found.ok) throw new Error("the model was not converted for LiteRT");
  const content = new Uint8Array(await found.arrayBuffer());
  await loadLiteRt("./litert/litert_wasm_jspi_internal.js", { jspi: true });
  const half = Object.values(inputs).some(({ dtype }) => dtype === "float16");
  const model = await loadAndCompile(content, {
    accelerator: "webgpu",
    gpuOptions: { precision: half ? "fp16" : "fp32" },
  });
  const given = Object.values(inputs).map(({ dtype, shape, data }) => [
    dtype === "int64"
      ? Int32Array.from(data, Number)
      : dtype === "float16" ? Float32Array.from(new Float16Array(data.buffer)) : data,
    shape,
  ]);
  return async () => {
    const tensors = given.map(([data, shape]) => new Tensor(data, shape));
    const outputs = await model.run(tensors);
    const result = await outputs[0].data();
    for (const tensor of [...tensors, ...outputs]) tensor.delete();
    return result;
  };
}
