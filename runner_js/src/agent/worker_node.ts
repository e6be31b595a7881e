/** An agent's worker in node: what a browser's worker has, and node's has not. */
import { readFile } from "node:fs/promises";
import { parentPort, workerData } from "node:worker_threads";

if (parentPort === null) throw new Error("tapml-worker-node.js is for a worker thread");
const port = parentPort;
Object.assign(globalThis, {
  postMessage: (message: unknown, transfer?: ArrayBuffer[]) => port.postMessage(message, transfer),
  addEventListener: (kind: string, listener: (event: { data: unknown }) => void) =>
    void port.on(kind, (data: unknown) => listener({ data })),
});
const { module } = workerData as { module: string };
if (module === "tapml-storage")
  Object.assign(globalThis, {
    fetch: async (url: URL | string) =>
      new Response(await readFile(new URL(url)), { headers: { "Content-Type": "application/wasm" } }),
  });
await import(/* @vite-ignore */ `./${module}.js`);
