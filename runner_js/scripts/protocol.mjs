/**
 * Makes src/protocol/generated from ../docs/protocol.schema.json (itself made from backend/tapml/protocol): the message
 * types, and the check of what the network sends.
 */
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import Ajv2020 from "ajv/dist/2020.js";
import standaloneCode from "ajv/dist/standalone/index.js";
import { compile } from "json-schema-to-typescript";

const NOTE =
  "// Made from docs/protocol.schema.json by scripts/protocol.mjs: change backend/tapml/protocol instead.\n";
const SCHEMA = new URL("../../docs/protocol.schema.json", import.meta.url);
const FOLDER = new URL("../src/protocol/generated/", import.meta.url);
/** What a runner receives. */
const CHECKS = { isCall: "Call", isCancelCall: "CancelCall", isHelloAck: "HelloAck" };

const schema = JSON.parse(await readFile(SCHEMA, "utf8"));

const types = await compile(schema, "Protocol", {
  bannerComment: NOTE,
  additionalProperties: false,
  unreachableDefinitions: true,
  ignoreMinAndMaxItems: true,
});
// The generator notes on every type where it comes from.
const noise =
  /( \* *\n)? \* This interface was referenced by `Protocol`'s JSON-Schema\n \* via the `definition` "\w+"\.\n/g;
const messages = types.replace(noise, "").replace(/\/\*\*\n \*\/\n/g, "");
const constants = `
export const PROTOCOL_VERSION = ${schema.version};
/** Of one WGSL file. */
export const MAX_WGSL_BYTES = ${schema.maxWgslBytes};
`;

const ajv = new Ajv2020({ code: { source: true, esm: true }, discriminator: true, strict: false });
ajv.addSchema(schema, "protocol");
const refs = Object.entries(CHECKS).map(([name, type]) => [name, `protocol#/$defs/${type}`]);
// Lengths in UTF-16 units, as the generated module stands alone, without a helper that counts characters.
const code = standaloneCode(ajv, Object.fromEntries(refs)).replace(
  /const (\w+) = require\("ajv\/dist\/runtime\/ucs2length"\)\.default;/g,
  "const $1 = (text) => text.length;",
);
const declarations = `${NOTE}import type { ${Object.values(CHECKS).join(", ")} } from "./messages";

export interface Check<T> {
  (value: unknown): value is T;
  /** What the last check found. */
  errors?: { instancePath: string; message?: string; params: Record<string, unknown> }[] | null;
}
${Object.entries(CHECKS)
  .map(([name, type]) => `export const ${name}: Check<${type}>;`)
  .join("\n")}
`;

/** Whoever reads it meanwhile (checks beside tests) sees the old text or the new one. */
async function write(name, text) {
  const path = new URL(name, FOLDER);
  if ((await readFile(path, "utf8").catch(() => null)) === text) return;
  const made = new URL(`${name}.${process.pid}`, FOLDER);
  await writeFile(made, text);
  await rename(made, path);
}

await mkdir(FOLDER, { recursive: true });
await write("messages.ts", messages + constants);
await write("check.js", `${NOTE}${code}\n`);
await write("check.d.ts", declarations);
