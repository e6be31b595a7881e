/**
 * A device without a browser: this runner in node (WebGPU by Dawn) or Deno (WebGPU by wgpu). Started by
 * `tapml device`, which says by environment where the server is; ends when its standard input does.
 */
import { type Dawn, gpuOf } from "./platform/dawn";
import type { Platform } from "./platform/platform";
import { withProfile } from "./profiles/profiles";
import { Session } from "./session/session";
import { startOf, type View } from "./session/view";

interface DenoGlobal {
  version: { deno: string };
  env: { get(name: string): string | undefined };
  memoryUsage(): { rss: number };
}
interface Node {
  env: Record<string, string | undefined>;
  version: string;
  stdin: { on(event: "end" | "close", then: () => void): void; resume(): void };
  exit(code: number): never;
  memoryUsage: { rss(): number };
  dlopen(module: object, file: string): void;
}
const deno = (globalThis as { Deno?: DenoGlobal }).Deno;

function setting(name: string): string {
  const value = deno ? deno.env.get(name) : node.env[name];
  if (!value) throw new Error(`${name} is not set: start this with \`tapml device\``);
  return value;
}

/** npm's `webgpu`, or its dawn.node alone. */
async function dawn(file: string): Promise<GPU> {
  if (!file.endsWith(".node")) return gpuOf((await import(/* @vite-ignore */ file)) as Dawn);
  const loaded = { exports: {} as Dawn };
  node.dlopen(loaded, file);
  return gpuOf(loaded.exports);
}

async function platform(origin: string): Promise<Platform> {
  const common = { origin, secure: true };
  if (deno) {
    const name = `Deno ${deno.version.deno}`;
    const memory = () => deno.memoryUsage().rss;
    return { ...common, runtime: "deno", name, userAgent: navigator.userAgent, gpu: navigator.gpu, memory };
  }
  const gpu = await dawn(setting("TAPML_DAWN"));
  const name = setting("TAPML_DEVICE_NAME");
  const memory = () => node.memoryUsage.rss();
  return { ...common, runtime: "node", name, userAgent: `node ${node.version}`, gpu, memory };
}

/** Standard error is for whoever started this. */
const view: View = {
  show: () => {},
  joined: () => {},
  log(level, text) {
    console.error(`${level}: ${text}`);
  },
};

const { default: node } = (await import(/* @vite-ignore */ `node:${"process"}`)) as { default: Node };
const url = new URL(setting("TAPML_RUNNER_URL"));
const start = startOf(url);
// Whoever started this holds the other end: when it dies, however it dies, this ends.
node.stdin.on("end", () => node.exit(0));
node.stdin.on("close", () => node.exit(0));
node.stdin.resume();
await new Session(withProfile(await platform(url.origin), start.profile), start, view).begin();
