/**
 * Makes webui/src/api/generated/results.ts and runner_js/repro/generated/results.ts from docs/results.schema.json (itself
 * made from backend/tapml/results): the types of result documents.
 */
import { readFile } from "node:fs/promises";
import { typesOf, write } from "./generate.mjs";

const NOTE =
  "// Made from docs/results.schema.json by runner_js/scripts/results.mjs: change backend/tapml/results instead.\n";
const ROOT = new URL("../../", import.meta.url);

const schema = JSON.parse(await readFile(new URL("docs/results.schema.json", ROOT), "utf8"));
const types = await typesOf(schema, NOTE);
for (const place of ["webui/src/api/generated/results.ts", "runner_js/repro/generated/results.ts"])
  await write(new URL(place, ROOT), types);
