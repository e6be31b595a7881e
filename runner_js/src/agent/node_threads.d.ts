/** Of node's own types, what is used here. */
declare module "node:worker_threads" {
  interface Port {
    postMessage(message: unknown, transfer?: readonly ArrayBuffer[]): void;
    on(kind: string, listener: (what: unknown) => void): unknown;
  }
  export const parentPort: Port | null;
  export class Worker implements Port {
    constructor(url: URL);
    postMessage(message: unknown, transfer?: readonly ArrayBuffer[]): void;
    on(kind: string, listener: (what: unknown) => void): unknown;
    terminate(): Promise<number>;
  }
}
