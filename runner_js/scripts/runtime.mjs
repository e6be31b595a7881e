/**
 * Makes what @tapml/runtime consists of beside its modules, which `vite build --config vite.runtime.config.ts` has made: one
 * file of types each, package.json, licence.
 */
import { execFileSync } from "node:child_process";
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const ROOT = new URL("../", import.meta.url);
const TARGET = new URL("../backend/tapml/server/static/runtime/", ROOT);
/** Of each module, compressed: a page that embeds a sentence shall not load a framework. */
const MOST_BYTES = { "tapml-runtime": 40_000, "tapml-tokenizer": 12_000, "tapml-generation": 8_000 };
/** By module, the files that have all that is public of it. They import nothing but each other. */
const PUBLIC = {
  "tapml-runtime": ["runtime/api", "runtime/error"],
  "tapml-tokenizer": ["tokenizer/error", "tokenizer/index"],
  "tapml-generation": ["generation/error", "generation/api", "generation/writer", "generation/index"],
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

const made = await mkdtemp(`${tmpdir()}/tapml-types-`);
try {
  const tsc = fileURLToPath(new URL("node_modules/.bin/tsc", ROOT));
  const files = Object.values(PUBLIC).flatMap((names) => names.map((name) => `src/${name}.ts`));
  const flags = [
    "--ignoreConfig",
    "--declaration",
    "--emitDeclarationOnly",
    "--target",
    "es2022",
    "--module",
    "esnext",
    "--moduleResolution",
    "bundler",
    "--rootDir",
    "src",
  ];
  const where = ["--lib", "es2023,dom", "--types", "@webgpu/types", "--skipLibCheck", "--outDir", made];
  execFileSync(tsc, [...flags, ...where, ...files], { cwd: fileURLToPath(ROOT), stdio: "inherit" });
  for (const [module, names] of Object.entries(PUBLIC)) {
    const texts = await Promise.all(names.map((name) => readFile(`${made}/${name}.d.ts`, "utf8")));
    const own = names.map((name) => name.split("/").at(-1)).join("|");
    const text = texts.join("\n").replace(new RegExp(`^(import|export) .*from "\\./(${own})";\n`, "gm"), "");
    const foreign = /^(?:import|export .*\bfrom) .*/m.exec(text);
    if (foreign) throw new Error(`the public types are no single file: ${foreign[0]}`);
    const [before, after] = ROUND[module];
    await writeFile(new URL(`${module}.d.ts`, TARGET), `${before}${text}${after}`);
  }
} finally {
  await rm(made, { recursive: true });
}

const { version, license } = JSON.parse(await readFile(new URL("package.json", ROOT), "utf8"));
const manifest = {
  name: "@tapml/runtime",
  version,
  license,
  description: "Runs models that tapml compiled, on WebGPU: no wasm, no dependencies",
  type: "module",
  exports: {
    ".": { types: "./tapml-runtime.d.ts", default: "./tapml-runtime.js" },
    "./tokenizer": { types: "./tapml-tokenizer.d.ts", default: "./tapml-tokenizer.js" },
    "./generation": { types: "./tapml-generation.d.ts", default: "./tapml-generation.js" },
  },
  files: Object.keys(PUBLIC).flatMap((module) => [`${module}.js`, `${module}.d.ts`]),
  sideEffects: false,
  peerDependencies: { "@webgpu/types": "*" },
  peerDependenciesMeta: { "@webgpu/types": { optional: true } },
};
await writeFile(new URL("package.json", TARGET), `${JSON.stringify(manifest, null, 2)}\n`);
await copyFile(new URL("../LICENSE", ROOT), new URL("LICENSE", TARGET));

for (const [module, most] of Object.entries(MOST_BYTES)) {
  const code = await readFile(new URL(`${module}.js`, TARGET));
  const bytes = gzipSync(code, { level: 9 }).length;
  console.log(`${module}.js: ${code.length} bytes, ${bytes} compressed`);
  if (bytes > most)
    throw new Error(`${module}.js takes ${bytes} bytes compressed, and at most ${most} are its own`);
  if (/\beval\(|new Function\(|\bimport\b/.test(code))
    throw new Error(`${module}.js evaluates text as code, or is not complete in itself`);
}
