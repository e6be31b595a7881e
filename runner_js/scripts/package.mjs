/** The rest of a package beside its modules and types: package.json, the licence, and a look at the modules' sizes. */
import { copyFile, readFile, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { minify } from "terser";

const ROOT = new URL("../", import.meta.url);

/** `manifest`: package.json without what all packages here have alike. */
export async function finish(target, manifest) {
  const { version, license } = JSON.parse(await readFile(new URL("package.json", ROOT), "utf8"));
  const { name, ...rest } = manifest;
  const whole = { name, version, license, type: "module", sideEffects: false, ...rest };
  await writeFile(new URL("package.json", target), `${JSON.stringify(whole, null, 2)}\n`);
  await copyFile(new URL("../LICENSE", ROOT), new URL("LICENSE", target));
}

/** Makes modules smaller that vite has minified: a percent of what is sent, for it inlines what is used once. */
export async function minified(target, modules) {
  for (const module of modules) {
    const file = new URL(`${module}.js`, target);
    const options = { module: true, compress: { ecma: 2022, passes: 3 } };
    const { code } = await minify(await readFile(file, "utf8"), options);
    await writeFile(file, code);
  }
}

/** Print the modules' sizes and throw where one takes more than `most[module]` bytes compressed. Their texts, by name. */
export async function checkedSizes(target, most) {
  const texts = {};
  for (const [module, limit] of Object.entries(most)) {
    const code = await readFile(new URL(`${module}.js`, target));
    const bytes = gzipSync(code, { level: 9 }).length;
    console.log(`${module}.js: ${code.length} bytes, ${bytes} compressed`);
    if (bytes > limit)
      throw new Error(`${module}.js takes ${bytes} bytes compressed, and at most ${limit} are its own`);
    texts[module] = code.toString();
  }
  return texts;
}
