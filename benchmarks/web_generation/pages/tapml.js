import { Writer } from "./tapml/tapml-generation.js";
import { load } from "./tapml/tapml-runtime.js";
import { Tokenizer } from "./tapml/tapml-tokenizer.js";

export async function start() {
  const model = await load(new URL("tapml/tiny.tapml/", import.meta.url), { unvalidated: "ignore" });
  const tokenizer = new Tokenizer(await model.tokenizer());
  return async (promptIds, tokens, begun = () => {}) => {
    // Nothing of the text before is reused: neither does the other.
    await model.reset();
    const pieces = new Writer(model, tokenizer).generate({ promptIds, tokens, greedy: true });
    for (let number = 0; ; number++) {
      const { done, value } = await pieces.next();
      if (number === 0) begun();
      if (!done) continue;
      const { ids, prefillSeconds, decodeSeconds } = value;
      return { ids, prefillSeconds, decodeSeconds, memory: model.memory.total };
    }
  };
}
