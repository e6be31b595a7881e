/**
 * Runs a task in the agent's VM in node: each line of standard input is an event, each of standard output its result.
 * With `gpu` and a number as arguments, what takes so many milliseconds (0: all that may) is computed on Dawn's device:
 * `lost` and `none` instead have one that is lost, and none. The line `null` gives how many requests it answered.
 */
import { createInterface } from "node:readline";
import { readFile } from "node:fs/promises";
import { published, SERVICE } from "../published.mjs";

const BASE = new URL("../../backend/tapml/server/static/agent/", import.meta.url);
const { createAgent } = await import(new URL("tapml-agent.js", BASE));
const { spawn } = await import(new URL("tapml-agent-node.js", BASE));

const main = await readFile(new URL("task.py", import.meta.url), "utf8");
const configuration = { format: "tapml.task-configuration/1", needs: { seconds: 60 } };
const given = await published({ "test/cases": { "main.py": main, "task.json": configuration } });
const [gpu, least = 0] = process.argv.slice(2);
const arrays = gpu === undefined ? undefined : await onGpu();
const agent = await createAgent({ service: SERVICE, app: "1", base: BASE.href, spawn, arrays, ...given });
agent.on("failed", ({ message }) => console.error(message));
await agent.pull();
for await (const line of createInterface({ input: process.stdin })) {
  if (line === "null") {
    process.stdout.write(`${JSON.stringify(arrays.counts)}\n`);
    continue;
  }
  const { result } = await agent.tasks.get("test/cases").start(JSON.parse(line));
  process.stdout.write(`${JSON.stringify(result)}\n`);
}
agent.close();
arrays?.close();

async function onGpu() {
  const { load } = await import(new URL("../runtime/tapml-runtime.js", BASE));
  const { arraysOnGpu } = await import(new URL("tapml-gpu.js", BASE));
  const device = gpu === "none" ? undefined : await ofDawn();
  if (gpu === "lost") device.destroy();
  // What goes wrong on a device that works is a fault of ours.
  const onFailure = (cause) => gpu === "gpu" && console.error(cause);
  return arraysOnGpu({ load, device, least: Number(least), onFailure });
}

async function ofDawn() {
  const { create, globals } = await import(new URL("../../runner_js/node_modules/webgpu/index.js", import.meta.url));
  Object.assign(globalThis, globals);
  // Devices live no longer than what made them.
  globalThis.dawn = create([]);
  return await (await globalThis.dawn.requestAdapter()).requestDevice();
}
