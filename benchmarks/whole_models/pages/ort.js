import * as ort from "./ort/ort.jspi.bundle.min.mjs";

export async function start(folder, _, inputs, result) {
  const model = new Uint8Array(await (await fetch(`${folder}/model.onnx`)).arrayBuffer());
  const session = await ort.InferenceSession.create(model, { executionProviders: ["webgpu"] });
  const given = {};
  for (const [name, { dtype, shape, data }] of Object.entries(inputs)) given[name] = new ort.Tensor(dtype, data, shape);
  return async () => (await session.run(given))[result].data;
}
