import { AutoModel, env, Tensor } from "./transformers/transformers.min.js";
import { inputs } from "./tokens.js";

export async function start() {
  env.allowRemoteModels = false;
  env.allowLocalModels = true;
  env.localModelPath = new URL("models/", location.href).href;
  env.backends.onnx.wasm.wasmPaths = new URL("transformers/", location.href).href;
  const model = await AutoModel.from_pretrained("minilm", { device: "webgpu", dtype: "fp32" });
  const given = inputs((numbers) => new Tensor("int64", BigInt64Array.from(numbers, BigInt), [1, numbers.length]));
  return async () => (await model(given)).sentence_embedding.data;
}
