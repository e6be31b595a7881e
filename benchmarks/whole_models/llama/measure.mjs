// GPU time of prefill and decode of compiled models in node, on Dawn (TAPML_DAWN: npm's `webgpu`, or its dawn.node):
// node measure.mjs FOLDER [NAME...], of what `python -m benchmarks.whole_models.llama` put there; a JSON line for the
// device, and one for each model as soon as it is measured. They run as a page runs them, with the same runtime.
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";

const { create, globals } = await dawn(process.env.TAPML_DAWN);
Object.assign(globalThis, globals);
const gpu = create([
  "enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia",
  "disable-dawn-features=timestamp_quantization",
]);
Object.defineProperty(globalThis, "navigator", { value: { gpu, userAgent: "node" }, configurable: true });

const folder = pathToFileURL(`${process.argv[2]}/`);
const asked = JSON.parse(await readFile(new URL("asked.json", folder), "utf8"));
const { passes, watch } = await import(new URL("passes.js", folder));
const { load } = await import(new URL("tapml-runtime.js", folder));
const { generate } = await import(new URL("tapml-generation.js", folder));
const fetch = async (url) => new Response(await readFile(new URL(url)));
const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
const { vendor, architecture, device, description } = adapter.info;
say({ device: description || device || vendor, vendor, architecture });

const chosen = process.argv.slice(3);
for (const name of chosen.length ? chosen : asked.models) {
  try {
    say({ name, ...(await measured(new URL(`${name}.tapml/`, folder))) });
  } catch (cause) {
    say({ name, error: String(cause?.message ?? cause).slice(0, 500) });
  }
}
// Not before a pipe has taken it all.
process.stdout.write("", () => process.exit(0));

/** npm's `webgpu`, or its dawn.node alone. */
async function dawn(file) {
  if (!file.endsWith(".node")) return import(pathToFileURL(file));
  const loaded = { exports: {} };
  process.dlopen(loaded, file);
  return loaded.exports;
}

function say(found) {
  console.log(JSON.stringify(found));
}

async function measured(url) {
  const { prompt, context, tokens } = asked;
  let begun = performance.now();
  const model = await load(url, { fetch, unvalidated: "ignore", cache: false });
  const loaded = performance.now() - begun;
  const { prefill, decode } = model.functions;
  const words = model.generation.vocabulary;
  const text = Array.from({ length: context + 1 }, (_, at) => (at * 7919 + 17) % words);
  const given = (begin, end) => ({
    input_ids: { data: Int32Array.from(text.slice(begin, end)), shape: [1, end - begin] },
    positions: Int32Array.from({ length: end - begin }, (_, at) => begin + at),
    last: Int32Array.of(end - begin - 1),
  });
  const call = async (of, inputs) => {
    const { next } = await of.run(inputs, { outputs: { logits: "unread" } });
    // The kernel that chooses says so of logits of which one is no finite number.
    if (next[0] < 0) throw new Error("a logit is no finite number");
  };
  begun = performance.now();
  await call(prefill, given(0, prompt));
  const first = performance.now() - begun;
  const prefilled = await timed(() => call(prefill, given(0, prompt)));
  const ofPrefill = await shares(prefill, given(0, prompt));
  for (let at = prompt; at < context; at += prompt) await call(prefill, given(at, Math.min(context, at + prompt)));
  const decoded = await timed(() => call(decode, given(context, context + 1)));
  const ofDecode = await shares(decode, given(context, context + 1));
  // As a page lets it write: calls are ahead of what is known of their tokens.
  const asWritten = [];
  for (let turn = 0; turn < 2; turn++) {
    await model.reset();
    asWritten.push(await ended(generate(model, null, { promptIds: text.slice(0, prompt), tokens, greedy: true })));
  }
  await model.dispose();
  const { ids, prefillSeconds, decodeSeconds } = asWritten[1];
  const written = { ids, prefill: 1e3 * prefillSeconds, decode: (1e3 * decodeSeconds) / (ids.length - 1) };
  return { loaded, first, prefill: { ...prefilled, kernels: ofPrefill }, decode: { ...decoded, kernels: ofDecode }, written };
}

/** Of calls one after the other, behind some that warm the GPU up: ms of each in which a compute pass runs. */
async function timed(run) {
  const until = performance.now() + asked.warm;
  do await run();
  while (performance.now() < until);
  const gpu = [];
  for (let round = 0; round < asked.rounds; round++) {
    watch();
    await run();
    const found = await passes();
    if (!found) throw new Error("the device has no timestamps");
    gpu.push(found.busy / 1e6);
  }
  return { gpu };
}

/** Of one call, each of whose dispatches is a pass of its own, the kernels that take the most: ms and dispatches. */
async function shares(of, inputs) {
  const { dispatches } = await of.profile(inputs);
  const found = new Map();
  for (const { kernel, seconds } of dispatches) {
    const one = found.get(kernel) ?? { kernel, dispatches: 0, ms: 0 };
    found.set(kernel, { ...one, dispatches: one.dispatches + 1, ms: one.ms + 1e3 * seconds });
  }
  return [...found.values()].sort((a, b) => b.ms - a.ms).slice(0, 12);
}

async function ended(pieces) {
  for (;;) {
    const { done, value } = await pieces.next();
    if (done) return value;
  }
}
