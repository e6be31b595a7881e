/**
 * Makes src/compiled/generated/model.ts from ../docs/model.schema.json (itself made from backend/tapml/compiled): the types
 * of a compiled model.
 */
import { readFile } from "node:fs/promises";
import { typesOf, write } from "./generate.mjs";

const NOTE =
  "// Made from docs/model.schema.json by scripts/model.mjs: change backend/tapml/compiled instead.\n";
const ROOT = new URL("../../", import.meta.url);

const schema = JSON.parse(await readFile(new URL("docs/model.schema.json", ROOT), "utf8"));
await write(new URL("runner_js/src/compiled/generated/model.ts", ROOT), await typesOf(schema, NOTE));
