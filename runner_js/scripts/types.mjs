/** The public types of a module as one file: those of its sources that have all that is public, one after the other. */
import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";

const ROOT = new URL("../", import.meta.url);
const FLAGS = [
  ...["--ignoreConfig", "--declaration", "--emitDeclarationOnly", "--target", "es2022", "--module", "esnext"],
  ...["--moduleResolution", "bundler", "--rootDir", "src", "--lib", "es2023,dom", "--types", "@webgpu/types"],
  ...["--skipLibCheck"],
];

/** `modules`: of each, names of files in src, which import nothing but each other. */
export async function publicTypes(modules) {
  const made = await mkdtemp(`${tmpdir()}/tapml-types-`);
  try {
    const tsc = fileURLToPath(new URL("node_modules/.bin/tsc", ROOT));
    const files = modules.flat().map((name) => `src/${name}.ts`);
    execFileSync(tsc, [...FLAGS, "--outDir", made, ...files], { cwd: fileURLToPath(ROOT), stdio: "inherit" });
    return await Promise.all(modules.map((names) => joined(made, names)));
  } finally {
    await rm(made, { recursive: true });
  }
}

async function joined(made, names) {
  const texts = await Promise.all(names.map((name) => readFile(`${made}/${name}.d.ts`, "utf8")));
  const own = names.map((name) => name.split("/").at(-1)).join("|");
  const text = texts
    .join("\n")
    .replace(new RegExp(`^(import|export) .*from "\\./(?:\\w+/)*(?:${own})";\n`, "gm"), "");
  const foreign = /^(?:import|export .*\bfrom) .*/m.exec(text);
  if (foreign) throw new Error(`the public types are no single file: ${foreign[0]}`);
  return text;
}
