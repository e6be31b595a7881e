/**
 * Makes src/protocol/generated from ../docs/protocol.schema.json (itself made from backend/tapml/protocol): the message
 * types, and the check of what the network sends.
 */
import { readFile } from "node:fs/promises";
import Ajv2020 from "ajv/dist/2020.js";
import standaloneCode from "ajv/dist/standalone/index.js";
import { typesOf, write } from "./generate.mjs";

const NOTE =
  "// Made from docs/protocol.schema.json by scripts/protocol.mjs: change backend/tapml/protocol instead.\n";
const SCHEMA = new URL("../../docs/protocol.schema.json", import.meta.url);
const FOLDER = new URL("../src/protocol/generated/", import.meta.url);
/** What a runner receives. */
const CHECKS = { isCall: "Call", isCancelCall: "CancelCall", isHelloAck: "HelloAck" };

const schema = JSON.parse(await readFile(SCHEMA, "utf8"));

const messages = await typesOf(schema, NOTE);
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

await write(new URL("messages.ts", FOLDER), messages + constants);
await write(new URL("check.js", FOLDER), `${NOTE}${code}\n`);
await write(new URL("check.d.ts", FOLDER), declarations);
