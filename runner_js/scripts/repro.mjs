/**
 * Makes the template of single-file reproducers out of ../repro and what it takes of ../src: one script without types,
 * whose comments stay, for the file is read by people too.
 */
import { execFileSync } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const SOURCE = new URL("../repro/", import.meta.url);
const TARGET = new URL("../../backend/tapml/server/static/repro/", import.meta.url);
/** What is filled in for each test (backend/tapml/sharing). */
const PLACEHOLDERS = ["{{csp}}", "{{title}}", "{{document}}", "{{wgsl}}", "{{tensors}}"];

const read = (name) => readFile(new URL(name, SOURCE), "utf8");

/** The bundler keeps comments of this form only. */
const comments = {
  name: "comments",
  enforce: "pre",
  transform: (code) => code.replace(/^( *)\/\/ (.*)$/gm, "$1/** $2 */"),
};
const [{ output }] = await build({
  configFile: false,
  logLevel: "warn",
  publicDir: false,
  plugins: [comments],
  build: {
    write: false,
    minify: false,
    target: "es2022",
    lib: { entry: fileURLToPath(new URL("repro.ts", SOURCE)), formats: ["es"] },
    rollupOptions: { output: { comments: { annotation: false } } },
  },
});
const biome = fileURLToPath(new URL("../node_modules/.bin/biome", import.meta.url));
const formatted = execFileSync(biome, ["format", "--stdin-file-path=repro/repro.js"], {
  cwd: fileURLToPath(new URL("..", import.meta.url)),
  input: output[0].code.replace(/(?<!\*\/\n)^(?=\/\*\*|\/\/ |function |async function )/gm, "\n"),
  encoding: "utf8",
});
const escaped = (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
const script = formatted.replace(/[^\n\x20-\x7e]/g, escaped);
const STYLES = ["../kit/kit.css", "../kit/column.css", "../kit/listing.css", "repro.css"];
const style = (await Promise.all(STYLES.map(read))).join("");
const page = (await read("template.html"))
  .replace("{{style}}", () => style.trimEnd())
  .replace("{{script}}", () => script.trimEnd());

const found = page.match(/\{\{\w+\}\}/g) ?? [];
if (found.join() !== PLACEHOLDERS.join()) {
  throw new Error(`the template's placeholders are ${found.join(", ")}, not ${PLACEHOLDERS.join(", ")}`);
}
const foreign = /[^\n\x20-\x7e]/.exec(page);
if (foreign) throw new Error(`${JSON.stringify(foreign[0])} in the template is no ASCII`);
if (/<\/(script|style)/i.test(script + style))
  throw new Error("a script or style of the template ends itself");

await mkdir(TARGET, { recursive: true });
await writeFile(new URL("template.html", TARGET), page);
