/** Makes what @tapml/agent consists of beside its modules, which `vite build --config vite.agent.config.ts` has made: types, package.json, licence. */
import { copyFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { checkedSizes, finish } from "./package.mjs";
import { publicTypes } from "./types.mjs";

const ROOT = new URL("../", import.meta.url);
const TARGET = new URL("../backend/tapml/server/static/agent/", ROOT);
/** Of each module, compressed. */
const MOST_BYTES = {
  "tapml-agent": 11_200,
  "tapml-vm": 3_500,
  "tapml-arrays": 6_000,
  "tapml-images": 4_000,
  "tapml-storage": 4_000,
  "tapml-sqlite": 70_000,
  "tapml-events": 6_500,
  "tapml-tunnel": 3_000,
  "tapml-gpu": 5_500,
  "tapml-remote": 3_000,
};

const CREATE = `/** Rejects with an AgentError. What the device holds from an earlier visit is there again. */
export declare function createAgent(options: AgentOptions): Promise<Agent>;
`;
const SPAWN = `import type { VmWorker, WorkerModule } from "./tapml-agent.js";
/** An agent's workers as node's worker threads, for tests and servers. They are not a boundary that holds hostile tasks. */
export declare function spawn(base: string, module: WorkerModule): VmWorker;
`;
const EVENTS = ["event", "triggers", "sequences", "streams", "processor", "collect", "tasks"];
const [types, events, tunnel, gpu] = await publicTypes([
  ["agent/storage/types", "agent/api", "agent/error"],
  EVENTS.map((name) => `agent/events/${name}`),
  ["agent/tunnel/outbox", "agent/tunnel/index"],
  ["agent/gpu/messages", "agent/gpu/index"],
]);
await writeFile(new URL("tapml-events.d.ts", TARGET), events);
await writeFile(new URL("tapml-tunnel.d.ts", TARGET), tunnel);
await writeFile(new URL("tapml-gpu.d.ts", TARGET), gpu);
await writeFile(new URL("tapml-agent.d.ts", TARGET), `${types}${CREATE}`);
await writeFile(new URL("tapml-agent-node.d.ts", TARGET), SPAWN);

await finish(TARGET, {
  name: "@tapml/agent",
  description: "Pulls tasks that the page's key signed, and runs each in a Python VM of its own",
  exports: {
    ".": { types: "./tapml-agent.d.ts", default: "./tapml-agent.js" },
    "./events": { types: "./tapml-events.d.ts", default: "./tapml-events.js" },
    "./tunnel": { types: "./tapml-tunnel.d.ts", default: "./tapml-tunnel.js" },
    "./gpu": { types: "./tapml-gpu.d.ts", default: "./tapml-gpu.js" },
    "./node": { types: "./tapml-agent-node.d.ts", default: "./tapml-agent-node.js" },
  },
  files: ["*.js", "*.mjs", "*.wasm", "*.d.ts", "python"],
});
const wasm = createRequire(import.meta.url).resolve("@sqlite.org/sqlite-wasm/sqlite3.wasm");
await copyFile(wasm, new URL("sqlite3.wasm", TARGET));
await copyFile(new URL("src/agent/compile.mjs", ROOT), new URL("tapml-compile.mjs", TARGET));

await checkedSizes(TARGET, MOST_BYTES);
