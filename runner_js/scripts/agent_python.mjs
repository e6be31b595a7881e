/**
 * The Python that tasks run in: Pyodide as npm has it, with a standard library that is tailored and compiled. Goes to python/
 * beside the agent; prints sizes before and after.
 */
import { cp, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const ROOT = new URL("../", import.meta.url);
const TARGET = new URL("../backend/tapml/server/static/agent/", ROOT);
const PLACE = dirname(createRequire(import.meta.url).resolve("pyodide"));
/** In bytes, compressed: what a page's first task loads. */
const MOST_LIBRARY = 1_650_000;

const python = new URL("python/", TARGET);
await mkdir(python, { recursive: true });
const { loadPyodide } = await import(`${PLACE}/pyodide.mjs`);
const pyodide = await loadPyodide({ env: { HOME: "/", PYTHONHASHSEED: "0" } });
pyodide.runPython(await readFile(new URL("scripts/agent_tailor.py", ROOT), "utf8"));
const sources = {};
const OWN = new URL("src/agent/python/", ROOT);
for (const path of await readdir(OWN, { recursive: true }))
  if (path.endsWith(".py")) sources[path] = await readFile(new URL(path, OWN), "utf8");
const told = JSON.parse(pyodide.globals.get("tailor")(pyodide.toPy(sources)));
const library = pyodide.FS.readFile("/tailored.zip");

/** `import` of an address: after the VM's start nothing may reach it. */
const LOADS = /(\w+)\(async (\w+)=>await import\(\2\),"loadScript"\)/;
const asm = await readFile(`${PLACE}/pyodide.asm.mjs`, "utf8");
if (!LOADS.test(asm))
  throw new Error("pyodide.asm.mjs loads scripts in another way: look whether tasks can reach it");
const version = JSON.parse(await readFile(`${PLACE}/package.json`, "utf8")).version;
const lock = JSON.parse(await readFile(`${PLACE}/pyodide-lock.json`, "utf8"));
await writeFile(
  new URL("pyodide.asm.mjs", python),
  asm.replace(LOADS, '$1(async()=>{throw new Error("no scripts are loaded")},"loadScript")'),
);
await writeFile(new URL("python_stdlib.zip", python), library);
// No packages: nothing is to be loaded by name.
await writeFile(new URL("pyodide-lock.json", python), JSON.stringify({ info: lock.info, packages: {} }));
await writeFile(new URL("modules.json", python), JSON.stringify({ pyodide: version, modules: told.modules }));
for (const name of ["pyodide.mjs", "pyodide.asm.wasm"]) await cp(`${PLACE}/${name}`, new URL(name, python));

const NAMES = [
  "pyodide.mjs",
  "pyodide.asm.mjs",
  "pyodide.asm.wasm",
  "python_stdlib.zip",
  "pyodide-lock.json",
];
const sizes = async (at) => {
  const files = await Promise.all(NAMES.map((name) => readFile(at(name))));
  const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
  return {
    bytes: sum(files.map(({ length }) => length)),
    compressed: sum(files.map((file) => gzipSync(file, { level: 9 }).length)),
  };
};
const [before, after] = [
  await sizes((name) => `${PLACE}/${name}`),
  await sizes((name) => fileURLToPath(new URL(name, python))),
];
const own = gzipSync(library, { level: 9 }).length;
console.log(
  `python/: ${after.bytes} bytes, ${after.compressed} compressed (Pyodide ${version}: ${before.bytes}, ${before.compressed})`,
);
console.log(`python/python_stdlib.zip: ${library.length} bytes, ${told.kept} of ${told.before} files`);
await writeFile(
  new URL("sizes.json", python),
  JSON.stringify({ before, after, library: library.length, files: told.kept }),
);
if (own > MOST_LIBRARY)
  throw new Error(`the standard library takes ${own} bytes, and at most ${MOST_LIBRARY} are its own`);
