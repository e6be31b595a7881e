/**
 * Makes what @tapml/runtime consists of beside its modules, which `vite build --config vite.runtime.config.ts` has made: one
 * file of types each, package.json, licence.
 */
import { writeFile } from "node:fs/promises";
import { checkedSizes, finish, minified } from "./package.mjs";
import { publicTypes } from "./types.mjs";

const TARGET = new URL("../../backend/tapml/server/static/runtime/", import.meta.url);
/**
 * Of each module, compressed: a page that embeds a sentence shall not load a framework. Of generation 500 are what lets the
 * device draw, which saves a page thousands of bytes a token; its parts share turns and paces, so it is not two modules.
 */
const MOST_BYTES = {
  "tapml-runtime": 40_000,
  "tapml-timing": 8_000,
  "tapml-preparing": 8_000,
  "tapml-tokenizer": 12_000,
  "tapml-generation": 9_500,
};
/** What the runtime imports where a page needs it. */
const OWN = ["tapml-timing", "tapml-preparing"];
/** By module, the files that have all that is public of it. They import nothing but each other. */
const PUBLIC = {
  "tapml-runtime": ["runtime/api", "runtime/error"],
  "tapml-tokenizer": ["tokenizer/error", "tokenizer/index"],
  "tapml-generation": [
    "generation/error",
    "generation/api",
    "generation/batch",
    "generation/writer",
    "generation/index",
  ],
};
const LOAD = `/**
 * The model at \`url\`: the folder that \`tapml build\` wrote, with a / at the end, its model.json, or a single file.
 * Rejects with a TapmlError, or the signal's reason.
 */
export declare function load(url: string, options?: LoadOptions): Promise<Model>;
`;
const ROUND = {
  "tapml-runtime": ['/// <reference types="@webgpu/types" />\n', LOAD],
  "tapml-tokenizer": ["", ""],
  "tapml-generation": ['/// <reference types="@webgpu/types" />\n', ""],
};

const texts = await publicTypes(Object.values(PUBLIC));
for (const [i, module] of Object.keys(PUBLIC).entries()) {
  const [before, after] = ROUND[module];
  await writeFile(new URL(`${module}.d.ts`, TARGET), `${before}${texts[i]}${after}`);
}

await finish(TARGET, {
  name: "@tapml/runtime",
  description: "Runs models that tapml compiled, on WebGPU: no wasm, no dependencies",
  exports: {
    ".": { types: "./tapml-runtime.d.ts", default: "./tapml-runtime.js" },
    "./tokenizer": { types: "./tapml-tokenizer.d.ts", default: "./tapml-tokenizer.js" },
    "./generation": { types: "./tapml-generation.d.ts", default: "./tapml-generation.js" },
  },
  files: [
    ...OWN.map((module) => `${module}.js`),
    ...Object.keys(PUBLIC).flatMap((module) => [`${module}.js`, `${module}.d.ts`]),
  ],
  peerDependencies: { "@webgpu/types": "*" },
  peerDependenciesMeta: { "@webgpu/types": { optional: true } },
});

await minified(TARGET, Object.keys(MOST_BYTES));
for (const [module, code] of Object.entries(await checkedSizes(TARGET, MOST_BYTES))) {
  const own =
    module === "tapml-runtime"
      ? OWN.reduce((text, one) => text.replace(`import("./${one}.js")`, ""), code)
      : code;
  if (/\beval\(|new Function\(|\bimport\b/.test(own))
    throw new Error(`${module}.js evaluates text as code, or is not complete in itself`);
}
