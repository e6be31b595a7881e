import { load } from "./tapml/tapml-runtime.js";

/** `compiler`: which of the compiled models. */
export async function start(folder, compiler, inputs, result) {
  const model = await load(new URL(`${folder}/${compiler}.tapml/`, import.meta.url), { unvalidated: "ignore" });
  const given = {};
  for (const [name, { dtype, shape, data }] of Object.entries(inputs))
    given[name] = { shape, data: dtype === "int64" ? Int32Array.from(data, Number) : data };
  return async () => (await model.run(given))[result];
}
