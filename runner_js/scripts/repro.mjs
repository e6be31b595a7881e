/**
 * Makes the template of single-file reproducers out of ../repro: styles and scripts go in as they are written, for the
 * file is read by people too. Only the lines that tie the modules together go, for in the page they are one script.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";

const SOURCE = new URL("../repro/", import.meta.url);
const TARGET = new URL("../../backend/tapml/server/static/repro/", import.meta.url);
const SCRIPTS = [
  "../kit/text.js",
  "../src/program/bytes.js",
  "../src/program/requirements.js",
  "../src/program/dtypes.js",
  "device.js",
  "../src/program/expressions.js",
  "../src/program/launches.js",
  "kernel.js",
  "compare.js",
  "test.js",
  "verdict.js",
  "view.js",
  "repro.js",
];
/** What is filled in for each test (backend/tapml/sharing). */
const PLACEHOLDERS = ["{{csp}}", "{{title}}", "{{document}}", "{{wgsl}}", "{{tensors}}"];

const read = (name) => readFile(new URL(name, SOURCE), "utf8");

/** A module as a part of the one script. */
async function part(name) {
  const text = await read(name);
  for (const [, from] of text.matchAll(/^import [^;]* from "(.*)";$/gm)) {
    const needed = new URL(from, new URL(name, SOURCE)).href;
    if (!SCRIPTS.some((known) => new URL(known, SOURCE).href === needed))
      throw new Error(`${name} needs ${from}, which is not among the scripts of the page`);
  }
  const ties = /^import [^;]*;\n|^\/\*\* @import .*\*\/\n/gm;
  const rule = `// ---- ${name} ${"-".repeat(100 - name.length)}\n\n`;
  return rule + text.replace(ties, "").replace(/^export (?=async |function |class |const )/gm, "");
}

const script = (await Promise.all(SCRIPTS.map(part))).join("\n");
const style = (await read("../kit/kit.css")) + (await read("repro.css"));
const page = (await read("template.html"))
  .replace("{{style}}", () => style.trimEnd())
  .replace("{{script}}", () => script.trimEnd());

const found = page.match(/\{\{\w+\}\}/g) ?? [];
if (found.join() !== PLACEHOLDERS.join()) {
  throw new Error(`the template's placeholders are ${found.join(", ")}, not ${PLACEHOLDERS.join(", ")}`);
}
const foreign = /[^\n\x20-\x7e]/.exec(page);
if (foreign) throw new Error(`${JSON.stringify(foreign[0])} in the template is no ASCII: write \\uXXXX`);
if (/<\/(script|style)/i.test(script + style))
  throw new Error("a script or style of the template ends itself");

await mkdir(TARGET, { recursive: true });
await writeFile(new URL("template.html", TARGET), page);
