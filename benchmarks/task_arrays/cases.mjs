/** Runs a task in the agent's VM in node: each line of standard input is an event, each of standard output its result. */
import { createInterface } from "node:readline";
import { readFile } from "node:fs/promises";
import { published, SERVICE } from "../published.mjs";

const BASE = new URL("../../backend/tapml/server/static/agent/", import.meta.url);
const { createAgent } = await import(new URL("tapml-agent.js", BASE));
const { spawn } = await import(new URL("tapml-agent-node.js", BASE));

const main = await readFile(new URL("task.py", import.meta.url), "utf8");
const configuration = { format: "tapml.task-configuration/1", needs: { seconds: 60 } };
const given = await published({ "test/cases": { "main.py": main, "task.json": configuration } });
const agent = await createAgent({ service: SERVICE, app: "1", base: BASE.href, spawn, ...given });
agent.on("failed", ({ message }) => console.error(message));
await agent.pull();
for await (const line of createInterface({ input: process.stdin })) {
  const { result } = await agent.tasks.get("test/cases").start(JSON.parse(line));
  process.stdout.write(`${JSON.stringify(result)}\n`);
}
agent.close();
