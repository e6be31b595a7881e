/** What agent and VM say to each other. The agent believes nothing that comes out of a VM: `vm.ts` checks it. */
import type { Connection } from "./gpu/messages";
import type { TableMessage } from "./storage/messages";
import type { Tables } from "./storage/types";

export interface Start {
  kind: "start";
  /** Address of the folder with Python, with a / at the end. */
  python: string;
  /** Memory of a VM that had just started. */
  snapshot: Uint8Array | null;
  /** Whether to give one. */
  makeSnapshot: boolean;
  interrupt: SharedArrayBuffer | null;
  /** Who computes large arrays. */
  gpu: Connection | null;
  /** Addresses of wheels of the page's. */
  packages: string[];
  files: [path: string, data: Uint8Array][];
  main: string;
  /** Names that may be emitted. */
  emits: string[];
  /** What it may keep. */
  tables: Tables;
}

export interface Run {
  kind: "run";
  id: number;
  event: string;
}

/** To a request of the VM. */
export interface Reply {
  kind: "reply";
  id: number;
  value: unknown;
  error: string | null;
}

export type ToVm = Start | Run | Reply;

export interface ModelTensor {
  dtype: string;
  shape: number[];
  data: ArrayBuffer;
}

export type FromVm =
  /** The first message, before anything of the task is there; where it was asked for. */
  | { kind: "snapshot"; data: Uint8Array }
  | { kind: "ready"; milliseconds: number }
  | { kind: "refused"; message: string }
  /** `outcome`: JSON of {"result"} or {"error", "interrupted"}. */
  | { kind: "ended"; id: number; milliseconds: number; outcome: string }
  | { kind: "emit"; name: string; value: string }
  | TableMessage
  | { kind: "fetch"; id: number; url: string; method: string; body: string | null }
  | { kind: "model"; id: number; model: string; inputs: Record<string, ModelTensor> };
