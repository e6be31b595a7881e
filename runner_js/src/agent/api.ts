/** The types of @tapml/agent, complete in this file, storage/types.ts and error.ts: scripts/agent.mjs makes the package's types of them. */
import type { Found, Keeps, Place, Value } from "./storage/types";

export type * from "./storage/types";

/** What a version of a task needs, and when it runs: its task.json (tapml.task-configuration/1), signed with its other files. */
export interface TaskConfiguration {
  /** The Python module whose function `run(event)` is called. */
  readonly main: string;
  /** Sequences of event ids that start it; "*" stands for any one, "**" for any number of them. */
  readonly triggers: readonly (readonly string[])[];
  /** The agent itself starts it that often, while the page is open. */
  readonly schedule: { readonly every_seconds: number } | null;
  readonly needs: {
    /** Origins that it may fetch from, where the page allows these as well. */
    readonly network: readonly string[];
    /** Folders of the version with a compiled model each, which end with a /. */
    readonly models: readonly string[];
    /** Of one run, at most. */
    readonly seconds: number;
  };
  /** Names that `tapml.emit` may use. */
  readonly emits: readonly string[];
  /** What it may keep on the device; null: nothing. */
  readonly keeps: Keeps | null;
}

export type FailureKind = "start" | "exception" | "time" | "crash" | "queue" | "pull" | "storage";

/** A failure of a task. It is told to listeners and to the service, and is never thrown into the page. */
export interface TaskFailure {
  readonly task: string;
  readonly version: string;
  readonly kind: FailureKind;
  /** One sentence, or Python's traceback. */
  readonly message: string;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** What a task emitted. It has left the VM, and nothing else: who listens decides. */
export interface Emitted {
  readonly task: string;
  readonly version: string;
  readonly name: string;
  /** JSON. */
  readonly value: unknown;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** What a GPU computed for a task's model, with its inputs: it has left this device. */
export interface Sampled {
  readonly task: string;
  readonly version: string;
  readonly bytes: number;
  /** How many operator calls are in it. */
  readonly operators: number;
  /** Whether the service keeps it, to compute it again. */
  readonly counted: boolean;
  /** Milliseconds since 1970. */
  readonly at: number;
}

export interface TaskRun {
  readonly task: string;
  readonly version: string;
  readonly failed: boolean;
  /** Of the run itself, without waiting for its turn or for the VM. */
  readonly ms: number;
  /** What `run` gave, as JSON; null where it failed. */
  readonly result: unknown;
  readonly failure: TaskFailure | null;
}

/** A version of a task that this device holds. */
export interface Task {
  readonly name: string;
  readonly version: string;
  readonly configuration: TaskConfiguration;
  /** `event`: what JSON can hold. Runs of a task take turns in the task's own VM. Never rejects. */
  start(event: unknown): Promise<TaskRun>;
}

export interface AgentEvents {
  installed: Task;
  removed: Task;
  /** An answer of the service was acted on: what is held now. */
  pulled: ReadonlyMap<string, Task>;
  emitted: Emitted;
  failed: TaskFailure;
  ran: TaskRun;
  sampled: Sampled;
  /** Where tasks keep what they keep; told when the first of them does. */
  storage: Place;
}

/** What is kept from visit to visit: files by digest, the device's name, what it holds. */
export interface AgentStore {
  get(key: string): Promise<Uint8Array<ArrayBuffer> | null>;
  set(key: string, value: Uint8Array<ArrayBuffer>): Promise<void>;
  delete(key: string): Promise<void>;
}

export type WorkerModule = "tapml-vm" | "tapml-storage";

/** What the agent asks of a worker, in a browser and in node. */
export interface VmWorker {
  postMessage(message: unknown, transfer?: Transferable[]): void;
  onMessage(listener: (message: unknown) => void): void;
  onError(listener: (message: string) => void): void;
  terminate(): void;
}

/** Of a model that @tapml/runtime loaded, what tasks use. */
export interface TaskModel {
  readonly outputs: readonly { readonly name: string; readonly shape: readonly unknown[] }[];
  run(inputs: Record<string, { data: never; shape: readonly number[] }>): Promise<Record<string, unknown>>;
  /** Of the next call. Without it nothing is sampled. */
  capture?(options: {
    sample: number;
    signal: AbortSignal;
  }): Promise<{ readonly file: Blob; readonly operators: readonly unknown[] }>;
  dispose(): void;
}

export interface AgentOptions {
  /** Where the field is served: "https://example.org/field/", or "/field/" of the page's own server. */
  readonly service: string;
  /** What `tapml field key` printed: versions that this key did not sign are never run. */
  readonly key: string;
  /** Version of the page. */
  readonly app: string;
  /** What the page declares of its user. */
  readonly attributes?: Readonly<Record<string, string | number | boolean>>;
  readonly gpu?: { readonly vendor: string; readonly architecture: string };
  /** Billions of multiplications a second: `speed()` of @tapml/agent/gpu measures it, null where there is no GPU. */
  readonly speed?: number | null;
  /** A grant of the page's server, which opens the exclusive files of whoever is logged in. */
  readonly grant?: () => Promise<string | null>;
  /** Origins that tasks may fetch from: none if nothing is said. */
  readonly network?: readonly string[];
  /** By task the least version that is run, against a service that offers older ones. */
  readonly least?: Readonly<Record<string, string>>;
  /** `load` of @tapml/runtime, by which tasks run their models. */
  readonly load?: (url: string, options: { fetch: typeof fetch; cache: boolean }) => Promise<TaskModel>;
  /** `arraysOnGpu` of @tapml/agent/gpu: where the page is cross-origin isolated, large arrays and images of tasks are computed on its GPU. */
  readonly arrays?: { connect(): { readonly port: MessagePort; readonly least: number } };
  /** The page's setting: whether what its user's GPU computed for a task's models may leave, with the inputs. Without it nothing is sampled. */
  readonly consent?: (what: { readonly task: string; readonly version: string }) => boolean;
  /** The page's setting: whether the service is told how runs ended (never what they computed). As `consent` says where this is left out; it is where neither is given. */
  readonly reports?: (what: { readonly task: string; readonly version: string }) => boolean;
  /** Wheels that the page serves, of the VM's Python: tasks may import what is in them. */
  readonly packages?: readonly string[];
  /** A name in place of the one drawn at random: that which a simulation step gives to its browser. */
  readonly device?: string;
  /** The folder with the package's files, with a / at the end: beside this module if nothing is said. */
  readonly base?: string;
  /** In place of the browser's Cache API. */
  readonly store?: AgentStore;
  /** In place of the browser's workers: `spawn` of @tapml/agent/node. */
  readonly spawn?: (base: string, module: WorkerModule) => VmWorker;
  /** In place of the browser's. */
  readonly fetch?: typeof fetch;
}

export interface Agent {
  /** Drawn at random, once; it says nothing of who uses the device. */
  readonly device: string;
  /** By SCENARIO/TASK. */
  readonly tasks: ReadonlyMap<string, Task>;
  /** The value of the header Tapml-Profile. */
  profile(): string;
  /** The page's ordinary requests: those to the page's or the service's origin carry the profile, and their answers are acted on. */
  fetch(url: string | URL, init?: RequestInit): Promise<Response>;
  /** Asks the service, installs and removes. Rejects with an AgentError where the service cannot be asked. */
  pull(): Promise<void>;
  /** SQL to what a task keeps, rows it has only just added among them. Rejects with an AgentError. */
  sql(task: string, text: string, values?: readonly Value[]): Promise<Found>;
  /** Gives a function that ends it. */
  on<K extends keyof AgentEvents>(kind: K, listener: (what: AgentEvents[K]) => void): () => void;
  /** Ends all VMs. What the device holds is kept. */
  close(): void;
}
