// Host cost in node, on Dawn's null backend: a GPU that takes no time, so that all of it is the host's.
// node node.mjs DAWN RUNTIME
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { hostCost } from "./host.js";

const [dawn, runtime] = process.argv.slice(2);
const { create, globals } = await import(pathToFileURL(dawn));
Object.assign(globalThis, globals);
const gpu = create(["backend=null"]);
Object.defineProperty(globalThis, "navigator", { value: { gpu, userAgent: "node" }, configurable: true });
const bytes = async (path) => new Uint8Array(await readFile(new URL(path, import.meta.url)));

const start = {
  async tapml() {
    const fetch = async (url) => new Response(await readFile(new URL(url)));
    return (await import("./tapml.js")).start({ fetch });
  },
  async tvmjs() {
    const tvmjs = await import("./tvmjs/tvmjs.js");
    // Its own asks for more than the null backend offers, and than these kernels need.
    const detectGPUDevice = async () => ({ device: await (await gpu.requestAdapter()).requestDevice() });
    return (await import("./embedders.js")).tvmjsEmbedder({ ...tvmjs, detectGPUDevice }, bytes);
  },
};

const embed = await start[runtime]();
const used = [];
const mark = () => {
  const { user, system } = process.cpuUsage();
  used.push((user + system) / 1000);
};
const found = await hostCost(embed, mark);
const { counted } = await import("./counter.js");
const calls = await counted().call(embed);
console.log(JSON.stringify({ runtime, ...found, ...calls, cpu: (used[1] - used[0]) / found.calls }));
process.exit(0);
