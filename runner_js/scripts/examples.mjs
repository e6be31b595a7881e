/** The pages that `tapml demo --model tiny` and `tapml field demo` serve are examples: they go into the package as they are. */
import { cp, rm } from "node:fs/promises";

const EXAMPLES = new URL("../../examples/", import.meta.url);
const TARGET = new URL("../../backend/tapml/server/static/examples/", import.meta.url);

await rm(TARGET, { recursive: true, force: true });
for (const name of ["chat", "field", "examples.css"])
  await cp(new URL(name, EXAMPLES), new URL(name, TARGET), { recursive: true });
