import type { VmWorker, WorkerModule } from "./api";

/** A module worker of the browser. */
export function spawned(base: string, module: WorkerModule): VmWorker {
  const worker = new Worker(`${base}${module}.js`, { type: "module" });
  return {
    postMessage: (message, transfer = []) => worker.postMessage(message, transfer),
    onMessage: (listener) => worker.addEventListener("message", ({ data }) => listener(data)),
    onError: (listener) =>
      worker.addEventListener("error", (event) => listener(event.message ?? "it cannot be loaded")),
    terminate: () => worker.terminate(),
  };
}
