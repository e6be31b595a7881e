import { inputs, NAMES } from "./tokens.js";

/** A session of ONNX Runtime Web as a function without arguments that gives the embedding. */
export async function ortEmbedder({ InferenceSession, Tensor }, model) {
  const session = await InferenceSession.create(model, { executionProviders: ["webgpu"] });
  const given = inputs((numbers) => new Tensor("int64", BigInt64Array.from(numbers, BigInt), [1, numbers.length]));
  return async () => (await session.run(given)).sentence_embedding.data;
}

/** The same of TVM's virtual machine; weights come from the shards of tapml's model: both have the same. */
export async function tvmjsEmbedder({ instantiate, createPolyfillWASI, detectGPUDevice }, bytes) {
  const json = async (path) => JSON.parse(new TextDecoder().decode(await bytes(path)));
  const { shards, parameters: stored } = await json("tvmjs/weights.json");
  const [wasm, ...pieces] = await Promise.all(["tvmjs/minilm.wasm", ...shards.map(({ file }) => file)].map(bytes));
  const weights = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  for (const [i, piece] of pieces.entries()) weights.set(piece, shards[i].offset);
  const { device } = await detectGPUDevice();
  const instance = await instantiate(wasm, createPolyfillWASI(), () => {});
  instance.initWebGPU(device);
  instance.beginScope();
  const vm = instance.createVirtualMachine(instance.webgpu());
  await instance.asyncLoadWebGPUPipelines(vm.getInternalModule());
  const main = vm.getFunction("main");
  const parameters = stored.map(({ shape, dtype, offset, bytes: count }) =>
    instance.empty(shape, dtype, instance.webgpu()).copyFromRawBytes(weights.slice(offset, offset + count)),
  );
  const given = inputs((numbers) => Int32Array.from(numbers));
  const tensors = NAMES.map((name) => instance.empty([1, given[name].length], "int32", instance.webgpu()));
  return async () => {
    instance.beginScope();
    try {
      for (const [i, name] of NAMES.entries()) tensors[i].copyFrom(given[name]);
      const output = main(...tensors, ...parameters);
      const copy = instance.empty(output.shape, output.dtype, instance.cpu()).copyFrom(output);
      await instance.webgpu().sync();
      return copy.toArray();
    } finally {
      instance.endScope();
    }
  };
}
