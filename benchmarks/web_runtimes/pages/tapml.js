import { load } from "./tapml/tapml-runtime.js";
import { inputs } from "./tokens.js";

export async function start(options = {}) {
  const model = await load(new URL("tapml/minilm.tapml/", import.meta.url), { unvalidated: "ignore", ...options });
  const given = inputs((numbers) => ({ data: Int32Array.from(numbers), shape: [1, numbers.length] }));
  return async () => (await model.run(given)).embedding;
}
