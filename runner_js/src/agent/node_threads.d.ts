/** Of node's own types, what is used here. */
declare module "node:worker_threads" {
  interface Port {
    postMessage(message: unknown, transfer?: readonly ArrayBuffer[]): void;
    on(kind: string, listener: (what: unknown) => void): unknown;
  }
  export const parentPort: Port | null;
  export const workerData: unknown;
  export class Worker implements Port {
    constructor(url: URL, options: { workerData: unknown });
    postMessage(message: unknown, transfer?: readonly ArrayBuffer[]): void;
    on(kind: string, listener: (what: unknown) => void): unknown;
    terminate(): Promise<number>;
  }
}
declare module "node:fs/promises" {
  export function readFile(url: URL): Promise<Uint8Array<ArrayBuffer>>;
}
