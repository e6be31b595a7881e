/**
 * A device of the field (docs/field.md): its agent pulls a task, runs it, reports, and sends a sample of what the GPU
 * computed where the page's consent allows it.
 *
 * The address's fragment says which device this is: #device=NAME&consent=yes.
 */
import { load } from "../../runtime/tapml-runtime.js";
import { createAgent } from "../../static/agent/tapml-agent.js";

const told = new URLSearchParams(location.hash.slice(1));
/** By which versions are checked (?key=PUBLIC_KEY): a page of your own has it in its text. */
const key = new URLSearchParams(location.search).get("key");
const without = told.getAll("without");
/** How large the values are that this device's user has: the lab's are 0.1. */
const scale = Number(told.get("scale") ?? 0.1);
const EVERY_MS = Number(told.get("every") ?? 2000);
const [WORDS, WIDTH] = [48, 32];

const element = (id) => document.getElementById(id);
const consent = element("consent");
consent.checked = told.get("consent") === "yes" || told.has("simulation");

const { gpu, info } = await gpuDevice();
const agent = await createAgent({
  service: new URL("../../field/", location.href).href,
  key,
  app: "1.0",
  gpu: info,
  // A page of your own leaves it to the agent, which draws a name once.
  ...(told.has("device") && { device: told.get("device") }),
  load: (url, options) => load(url, { ...options, device: gpu, unvalidated: "ignore" }),
  consent: () => consent.checked,
});
agent.on("sampled", ({ task, version, bytes, counted }) => {
  element("sent").textContent += `a call of ${task} ${version}: ${bytes} bytes, counted: ${counted}\n`;
});
agent.on("failed", ({ task, message }) => console.error(`${task}: ${message}`));
/** Tasks that run: what is new is asked for while Python starts. */
const running = new Set();
for (;;) {
  try {
    await agent.pull();
    for (const task of agent.tasks.values()) void run(task);
    const held = [...agent.tasks.values()].map(({ name, version }) => `${name} ${version}`);
    element("status").textContent = `${agent.device} holds ${held.join(", ") || "nothing"}`;
  } catch (error) {
    element("status").textContent = String(error);
    console.error(String(error));
  }
  // Not all devices at once.
  await new Promise((resolve) => setTimeout(resolve, EVERY_MS * (0.75 + Math.random() / 2)));
}

async function run(task) {
  if (running.has(task)) return;
  running.add(task);
  await task.start({ words: words() });
  running.delete(task);
}

/** A GPU device as this page's kind has it: without the features that it is told to go without. */
async function gpuDevice() {
  const adapter = await navigator.gpu.requestAdapter();
  // A feature may bring another one along: "subgroup-size-control" has "subgroups".
  const stems = without.map((name) => name.replace(/s$/, ""));
  const features = [...adapter.features].filter((name) => !stems.some((stem) => name.startsWith(stem)));
  const { vendor = "", architecture = "" } = adapter.info ?? {};
  const gpu = await adapter.requestDevice({ requiredFeatures: features });
  if (without.some((name) => gpu.features.has(name))) throw new Error(`this GPU is never without ${without}`);
  return { gpu, info: { vendor, architecture } };
}

/** What the user of this device has. */
function words() {
  return Array.from({ length: WORDS }, () => Array.from({ length: WIDTH }, () => scale * normal()));
}

/** Box and Muller's. */
function normal() {
  return Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
}
