// What a page says of compiled models: a document on each line of stdin, on stdout [sentence or null, milliseconds].
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const root = new URL("../../runner_js/", import.meta.url);
const { build } = await import(new URL("node_modules/vite/dist/node/index.js", root).href);
const made = await build({
  root: fileURLToPath(root),
  configFile: false,
  logLevel: "silent",
  publicDir: false,
  build: { write: false, minify: false, lib: { entry: "src/compiled/verify.ts", formats: ["es"] } },
});
const code = made[0].output[0].code;
const { verified, ModelError } = await import(`data:text/javascript;base64,${Buffer.from(code).toString("base64")}`);

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const began = performance.now();
  let sentence = null;
  try {
    verified(JSON.parse(line));
  } catch (cause) {
    sentence = cause instanceof ModelError ? cause.message : `CRASH ${cause?.stack}`;
  }
  console.log(JSON.stringify([sentence, performance.now() - began]));
}
