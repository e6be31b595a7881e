/**
 * `make bench-agent`: what the agent's Python costs, in node: sizes before and after tailoring, the start of the first VM and of
 * further ones (from the first one's memory), and runs a second of 1, 2 and 4 VMs against one that runs all in turn.
 */
import { readFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { published, SERVICE } from "./published.mjs";

const BASE = new URL("../backend/tapml/server/static/agent/", import.meta.url);
const { createAgent } = await import(new URL("tapml-agent.js", BASE));
const { spawn } = await import(new URL("tapml-agent-node.js", BASE));
const MAIN = "def run(event):\n    total = 0\n    for i in range(event['loops']):\n        total += i * i % 7\n    return total\n";
const RUNS = 8;
const LOOPS = Number(process.argv[2] ?? 1_000_000);

const { before, after, library, files: kept } = JSON.parse(await readFile(new URL("python/sizes.json", BASE), "utf8"));
console.log(`Python compressed: ${before.compressed} bytes as npm has it, ${after.compressed} tailored`);
console.log(`its standard library: ${library} bytes, ${kept} files`);

const files = { "main.py": MAIN, "task.json": { format: "tapml.task-configuration/1", needs: { seconds: 600 } } };
const given = await published(Object.fromEntries(["a", "b", "c", "d"].map((name) => [`bench/${name}`, files])));
const agent = await createAgent({ service: SERVICE, app: "1", base: BASE.href, spawn, ...given });
await agent.pull();
const tasks = [...agent.tasks.values()];

const run = async (task, loops = LOOPS) => {
  const found = await task.start({ loops });
  if (found.failed) throw new Error(found.failure.message);
};
const seconds = async (work) => {
  const began = performance.now();
  await work();
  return (performance.now() - began) / 1000;
};
for (const [i, task] of tasks.entries()) {
  const took = await seconds(() => run(task, 1));
  console.log(`${i === 0 ? "first VM" : `VM ${i + 1}`}: ${took.toFixed(2)} s until its first result`);
}
let one = 0;
for (const count of [1, 2, 4]) {
  const took = await seconds(() => Promise.all(Array.from({ length: RUNS }, (_, i) => run(tasks[i % count]))));
  const rate = RUNS / took;
  one ||= rate;
  console.log(`${count} VMs: ${rate.toFixed(2)} runs a second, ${(rate / one).toFixed(2)} x one VM`);
}
console.log(`${availableParallelism()} processors, Node.js ${process.version}`);
agent.close();
