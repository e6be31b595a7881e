/** Types from a JSON Schema, and files that are written whole. */
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { compile } from "json-schema-to-typescript";

/** TypeScript of all definitions of a schema; `note` stands at its head. */
export async function typesOf(schema, note) {
  const types = await compile(schema, schema.title, {
    bannerComment: note,
    additionalProperties: false,
    unreachableDefinitions: true,
    ignoreMinAndMaxItems: true,
  });
  // The generator notes on every type where it comes from.
  const noise = new RegExp(
    `( \\* *\\n)? \\* This interface was referenced by \`${schema.title}\`'s JSON-Schema\\n \\* via the \`definition\` "\\w+"\\.\\n`,
    "g",
  );
  return types.replace(noise, "").replace(/\/\*\*\n \*\/\n/g, "");
}

/** Whoever reads it meanwhile (checks beside tests) sees the old text or the new one. */
export async function write(path, text) {
  if ((await readFile(path, "utf8").catch(() => null)) === text) return;
  await mkdir(new URL(".", path), { recursive: true });
  const made = new URL(`${path.href}.${process.pid}`);
  await writeFile(made, text);
  await rename(made, path);
}
