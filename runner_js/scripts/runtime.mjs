/**
 * Makes what @tapml/runtime consists of beside its module, which `vite build --config vite.runtime.config.ts` has made: one
 * file of types, package.json, licence.
 */
import { execFileSync } from "node:child_process";
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const ROOT = new URL("../", import.meta.url);
const TARGET = new URL("../backend/tapml/server/static/runtime/", ROOT);
/** Of the module, compressed: a page that embeds a sentence shall not load a framework. */
const MOST_BYTES = 40_000;
/** Types and the one class; neither imports anything. */
const PUBLIC = ["api", "error"];

const made = await mkdtemp(`${tmpdir()}/tapml-types-`);
try {
  const tsc = fileURLToPath(new URL("node_modules/.bin/tsc", ROOT));
  const files = PUBLIC.map((name) => `src/runtime/${name}.ts`);
  const flags = [
    "--ignoreConfig",
    "--declaration",
    "--emitDeclarationOnly",
    "--target",
    "es2022",
    "--module",
    "esnext",
  ];
  const where = ["--lib", "es2023,dom", "--types", "@webgpu/types", "--skipLibCheck", "--outDir", made];
  execFileSync(tsc, [...flags, ...where, ...files], { cwd: fileURLToPath(ROOT), stdio: "inherit" });
  const texts = await Promise.all(PUBLIC.map((name) => readFile(`${made}/${name}.d.ts`, "utf8")));
  const foreign = /^(?:import|export \* from) .*/m.exec(texts.join("\n"));
  if (foreign) throw new Error(`the public types are no single file: ${foreign[0]}`);
  const load = `/**
 * The model at \`url\`: the folder that \`tapml build\` wrote, with a / at the end, its model.json, or a single file.
 * Rejects with a TapmlError, or the signal's reason.
 */
export declare function load(url: string, options?: LoadOptions): Promise<Model>;
`;
  await writeFile(
    new URL("tapml-runtime.d.ts", TARGET),
    `/// <reference types="@webgpu/types" />\n${texts.join("\n")}${load}`,
  );
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
  exports: { ".": { types: "./tapml-runtime.d.ts", default: "./tapml-runtime.js" } },
  files: ["tapml-runtime.js", "tapml-runtime.d.ts"],
  sideEffects: false,
  peerDependencies: { "@webgpu/types": "*" },
  peerDependenciesMeta: { "@webgpu/types": { optional: true } },
};
await writeFile(new URL("package.json", TARGET), `${JSON.stringify(manifest, null, 2)}\n`);
await copyFile(new URL("../LICENSE", ROOT), new URL("LICENSE", TARGET));

const code = await readFile(new URL("tapml-runtime.js", TARGET));
const bytes = gzipSync(code, { level: 9 }).length;
console.log(`tapml-runtime.js: ${code.length} bytes, ${bytes} compressed`);
if (bytes > MOST_BYTES)
  throw new Error(`@tapml/runtime takes ${bytes} bytes compressed, and at most ${MOST_BYTES} are its own`);
if (/\beval\(|new Function\(/.test(code)) throw new Error("@tapml/runtime evaluates text as code");
