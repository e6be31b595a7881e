/** @tapml/agent/node: an agent's workers as node's worker threads, for tests and servers. They are not a boundary that holds hostile tasks. */
import { Worker } from "node:worker_threads";
import type { VmWorker, WorkerModule } from "./api";

export function spawn(base: string, module: WorkerModule): VmWorker {
  const worker = new Worker(new URL("tapml-worker-node.js", base), { workerData: { module } });
  return {
    postMessage: (message, transfer) => worker.postMessage(message, transfer as ArrayBuffer[]),
    onMessage: (listener) => void worker.on("message", listener),
    onError: (listener) => void worker.on("error", (error: unknown) => listener(String(error))),
    terminate: () => void worker.terminate(),
  };
}
