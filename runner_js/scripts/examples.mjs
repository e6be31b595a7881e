/** The page that `tapml demo --model tiny` serves is the example: it goes into the package as it is. */
import { cp, rm } from "node:fs/promises";

const EXAMPLES = new URL("../../examples/", import.meta.url);
const TARGET = new URL("../../backend/tapml/server/static/examples/", import.meta.url);

await rm(TARGET, { recursive: true, force: true });
for (const name of ["chat", "examples.css"])
  await cp(new URL(name, EXAMPLES), new URL(name, TARGET), { recursive: true });
