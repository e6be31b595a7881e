// The page of `tapml test --html` and `tapml locate --html` as one file: report.ts bundled, styles and script in the page, their hashes in its policy.
import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "../../backend/tapml/server/static/report");

const [bundle] = await build({
  configFile: false,
  root: here,
  logLevel: "warn",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    write: false,
    target: "es2022",
    lib: { entry: join(here, "report.ts"), formats: ["iife"], name: "report" },
  },
});
const script = bundle.output[0].code.trim();
const STYLES = [
  "../../runner_js/kit/kit.css",
  "../src/style/base.css",
  "../src/style/common.css",
  "../src/style/evidence.css",
  "../src/style/offload.css",
  "../src/style/locate.css",
  "report.css",
];
const style = (await Promise.all(STYLES.map((name) => readFile(join(here, name), "utf8")))).join("\n").trim();
for (const [text, end] of [
  [script, "</script"],
  [style, "</style"],
]) {
  if (text.toLowerCase().includes(end) || text.includes("<!--"))
    throw new Error(`the page's text has ${end} in it`);
}
const hash = (text) => `sha256-${createHash("sha256").update(text).digest("base64")}`;
const parts = {
  "@@SCRIPT-HASH@@": hash(script),
  "@@STYLE-HASH@@": hash(style),
  "<style></style>": `<style>${style}</style>`,
  "<script></script>": `<script>${script}</script>`,
};
let page = await readFile(join(here, "report.html"), "utf8");
for (const [place, text] of Object.entries(parts)) {
  if (page.split(place).length !== 2) throw new Error(`report.html has no single ${place}`);
  page = page.replace(place, () => text);
}
await mkdir(out, { recursive: true });
await writeFile(join(out, "template.html"), page);
