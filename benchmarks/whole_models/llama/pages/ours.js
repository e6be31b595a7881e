import { load } from "./tapml-runtime.js";

export async function start(name) {
  const model = await load(new URL(`${name}.tapml/`, import.meta.url), { unvalidated: "ignore", cache: false });
  const { prefill, decode } = model.functions;
  const run = (text, begin, end, options) =>
    (end - begin === 1 ? decode : prefill).run(
      {
        input_ids: { data: Int32Array.from(text.slice(begin, end)), shape: [1, end - begin] },
        positions: Int32Array.from({ length: end - begin }, (_, at) => begin + at),
        last: Int32Array.of(end - begin - 1),
      },
      options,
    );
  return {
    async call(text, begin, end) {
      // The kernel that chooses says so of logits of which one is no finite number.
      if ((await run(text, begin, end, { outputs: { logits: "unread" } })).next[0] < 0)
        throw new Error("a logit is no finite number");
    },
    async fill(text, end) {
      const { chunk } = model.generation;
      for (let at = 0; at < end; at += chunk) await this.call(text, at, Math.min(end, at + chunk));
    },
    logits: async (text, begin, end) => Array.from((await run(text, begin, end)).logits),
  };
}
