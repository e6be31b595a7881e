/** A VM's worker in node: what a browser's worker has, and node's has not. */
import { parentPort } from "node:worker_threads";

if (parentPort === null) throw new Error("tapml-vm-node.js is for a worker thread");
const port = parentPort;
Object.assign(globalThis, {
  postMessage: (message: unknown, transfer?: ArrayBuffer[]) => port.postMessage(message, transfer),
  addEventListener: (kind: string, listener: (event: { data: unknown }) => void) =>
    void port.on(kind, (data: unknown) => listener({ data })),
});
const vm = "./tapml-vm.js";
await import(/* @vite-ignore */ vm);
