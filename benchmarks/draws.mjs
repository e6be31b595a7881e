// Texts that a model writes in node, on Dawn: tokens a second, and how long the GPU waits between tokens.
// node draws.mjs DAWN, of {runtime, passes, models, ways, prompt, tokens, rounds} on stdin; JSON on stdout.
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";

const { create, globals } = await dawn(process.argv[2]);
Object.assign(globalThis, globals);
const gpu = create(["disable-dawn-features=timestamp_quantization"]);
Object.defineProperty(globalThis, "navigator", { value: { gpu, userAgent: "node" }, configurable: true });

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const { runtime, passes, models, ways, prompt, tokens, rounds } = JSON.parse(Buffer.concat(chunks).toString());
// Whatever node takes a .js without a package.json for, it is a module.
const code = Buffer.from(await readFile(passes)).toString("base64");
const { idle, watch } = await import(`data:text/javascript;base64,${code}`);
const { load } = await import(pathToFileURL(`${runtime}/tapml-runtime.js`));
const { Writer } = await import(pathToFileURL(`${runtime}/tapml-generation.js`));

const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
const fetch = async (url) => new Response(await readFile(new URL(url)));
const loaded = {};
// One after the other: what is watched is the device that was made last.
for (const [name, path] of Object.entries(models)) {
  const model = await load(`${pathToFileURL(path)}/`, { fetch, unvalidated: "ignore" });
  const write = async (options, begun) => {
    await model.reset();
    const pieces = new Writer(model, null).generate({ promptIds: prompt, tokens, ...options });
    for (let number = 0; ; number++) {
      const { done, value } = await pieces.next();
      if (number === 0) begun?.();
      if (done) return value;
    }
  };
  loaded[name] = write;
  for (const [way, options] of Object.entries(ways)) {
    const speeds = [];
    const idles = [];
    const read = [];
    let ids = null;
    await write(options);
    for (let round = 0; round < rounds; round++) {
      const found = await write(options);
      ids = found.ids;
      speeds.push((ids.length - 1) / found.decodeSeconds);
      await write(options, watch);
      idles.push(await idle());
      read.push(await bytesRead(() => write(options)));
    }
    console.log(JSON.stringify({ model: name, way, speeds, idles, read: Math.max(...read) / tokens, ids }));
  }
  await model.dispose();
}
console.log(JSON.stringify({ device: adapter.info.description || adapter.info.device || adapter.info.vendor }));
// Not before a pipe has taken it all.
process.stdout.write("", () => process.exit(0));

/** What is mapped to be read while `work` runs. */
async function bytesRead(work) {
  const { getMappedRange } = GPUBuffer.prototype;
  let bytes = 0;
  GPUBuffer.prototype.getMappedRange = function (...given) {
    const range = getMappedRange.apply(this, given);
    bytes += range.byteLength;
    return range;
  };
  try {
    await work();
  } finally {
    GPUBuffer.prototype.getMappedRange = getMappedRange;
  }
  return bytes;
}

/** npm's `webgpu`, or its dawn.node alone. */
async function dawn(file) {
  if (!file.endsWith(".node")) return import(pathToFileURL(file));
  const loaded = { exports: {} };
  process.dlopen(loaded, file);
  return loaded.exports;
}
