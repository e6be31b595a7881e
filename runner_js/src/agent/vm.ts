/** One VM, seen from the page: it is started, runs one event at a time, and is stopped. What it says is hostile input. */
import type { AgentOptions, Found, Tables, VmWorker } from "./api";
import { MOST_ASKED, MOST_EMITTED, MOST_TEXT } from "./limits";
import type { FromVm, ModelTensor, Reply, Start } from "./messages";
import { MOST_ADDED } from "./storage/rows";

/**
 * Milliseconds for a task that was interrupted to end by itself, on a slow and busy device. They are two timers: while the
 * page itself hangs only one of them passes, and what the VM has said meanwhile is heard before the other.
 */
const GRACE = 5000;
/** Milliseconds for a VM to start, on the slowest device. */
const START = 120_000;

export interface Outcome {
  readonly kind: "result" | "exception" | "time" | "crash";
  readonly result: unknown;
  readonly message: string;
  readonly ms: number;
}

/** What a VM may ask of its page. */
export interface Host {
  emit(name: string, value: unknown): void;
  fetch(url: string, method: string, body: string | null): Promise<[number, Uint8Array]>;
  model(path: string, inputs: Record<string, ModelTensor>): Promise<unknown[]>;
  /** Throws where table or row are not what was declared. */
  add(table: unknown, row: unknown): void;
  flush(): Promise<string>;
  sql(text: unknown, values: unknown): Promise<Found>;
}

export interface VmStart {
  readonly worker: VmWorker;
  readonly python: string;
  readonly snapshot: Uint8Array | null;
  readonly makeSnapshot: boolean;
  readonly files: ReadonlyMap<string, Uint8Array>;
  readonly main: string;
  readonly emits: readonly string[];
  readonly tables: Tables;
  readonly arrays: AgentOptions["arrays"];
  /** Addresses of wheels. */
  readonly packages: readonly string[];
}

type Ended = (outcome: Outcome) => void;

export class Vm {
  /** Milliseconds until it was ready, inside the worker. */
  milliseconds = 0;
  snapshot: Uint8Array | null = null;
  /** Why it cannot run any more. */
  broken: string | null = null;
  private readonly interrupt: Uint8Array | null;
  private ready: (() => void) | null = null;
  private refused: ((message: string) => void) | null = null;
  private current: {
    id: number;
    ended: Ended;
    began: number;
    late: boolean;
    emitted: number;
    added: number;
  } | null = null;
  private runs = 0;
  private asked = 0;
  private heard = false;

  private constructor(
    private readonly given: VmStart,
    private readonly host: Host,
  ) {
    // Two threads may share memory in node, and in a page that is cross-origin isolated.
    const shared = typeof SharedArrayBuffer === "function" ? new SharedArrayBuffer(1) : null;
    this.interrupt = shared && new Uint8Array(shared);
    given.worker.onMessage((message) => this.take(message));
    given.worker.onError((message) => this.stop(`its worker failed: ${message.slice(0, 300)}`));
    const { python, snapshot, makeSnapshot, main, tables } = given;
    const gpu = shared && (given.arrays?.connect() ?? null);
    const start: Start = {
      ...{ kind: "start", python, snapshot, makeSnapshot, interrupt: shared, gpu, main, tables },
      ...{ files: [...given.files], emits: [...given.emits] },
      packages: given.packages.map((one) => new URL(one, globalThis.location?.href).href),
    };
    given.worker.postMessage(start, gpu ? [gpu.port] : []);
  }

  /** Rejects with an Error that says why it could not. */
  static async start(given: VmStart, host: Host): Promise<Vm> {
    const vm = new Vm(given, host);
    let late: ReturnType<typeof setTimeout> | undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        vm.ready = resolve;
        vm.refused = (message) => reject(new Error(message));
        late = setTimeout(() => vm.stop(`it was not ready within ${START / 1000} s`), START);
      });
    } finally {
      clearTimeout(late);
    }
    return vm;
  }

  /** Never rejects. `event`: JSON. One run at a time. */
  run(event: string, seconds: number): Promise<Outcome> {
    if (this.broken !== null) return Promise.resolve(outcome("crash", this.broken, 0));
    const id = ++this.runs;
    const began = performance.now();
    return new Promise((resolve) => {
      const timers: ReturnType<typeof setTimeout>[] = [];
      const ended: Ended = (found) => {
        for (const timer of timers) clearTimeout(timer);
        this.current = null;
        resolve(found);
      };
      const current = { id, ended, began, late: false, emitted: 0, added: 0 };
      this.current = current;
      if (this.interrupt) this.interrupt[0] = 0;
      const say = `it ran longer than ${seconds} s`;
      timers.push(
        setTimeout(() => {
          current.late = true;
          if (this.interrupt === null) {
            this.stop(say, "time");
            return;
          }
          this.interrupt[0] = 2; // SIGINT
          const stop = () => this.stop(`${say}, and did not stop when it was interrupted`, "time");
          timers.push(setTimeout(() => timers.push(setTimeout(stop, GRACE / 2)), GRACE / 2));
        }, 1000 * seconds),
      );
      this.given.worker.postMessage({ kind: "run", id, event });
    });
  }

  /** Ends the worker, whatever it does. */
  stop(why: string, kind: "crash" | "time" = "crash"): void {
    if (this.broken !== null) return;
    this.broken = why;
    this.given.worker.terminate();
    this.refused?.(why);
    this.current?.ended(outcome(kind, why, performance.now() - this.current.began));
  }

  private take(given: unknown): void {
    if (this.broken !== null || typeof given !== "object" || given === null) return;
    const message = given as FromVm;
    const first = !this.heard;
    this.heard = true;
    if (message.kind === "snapshot") {
      if (first && this.given.makeSnapshot && message.data instanceof Uint8Array)
        this.snapshot = message.data;
    } else if (message.kind === "ready") {
      this.milliseconds = Number(message.milliseconds);
      this.refused = null;
      this.ready?.();
    } else if (message.kind === "refused") this.stop(String(message.message).slice(0, 8000));
    else if (message.kind === "ended") this.ended(message.id, message.outcome, Number(message.milliseconds));
    else if (message.kind === "emit") this.emitted(message.name, message.value);
    else if (message.kind === "add") this.added(message.table, message.row);
    else if (message.kind === "flush") void this.reply(message.id, () => this.host.flush());
    else if (message.kind === "sql")
      void this.reply(message.id, () => this.host.sql(message.text, message.values));
    else if (message.kind === "fetch")
      void this.reply(message.id, () => this.host.fetch(message.url, message.method, message.body));
    else if (message.kind === "model")
      void this.reply(message.id, () => this.host.model(message.model, message.inputs));
  }

  private ended(id: number, text: unknown, ms: number): void {
    const current = this.current;
    if (current === null || current.id !== id) return;
    const found = parsed(text);
    if (typeof found !== "object" || found === null) {
      current.ended(outcome("exception", `it gave more than ${MOST_TEXT} characters of JSON, or none`, ms));
    } else if ("result" in found) current.ended({ kind: "result", result: found.result, message: "", ms });
    else {
      const message = String((found as { error?: unknown }).error).slice(0, 8000);
      current.ended(outcome(current.late ? "time" : "exception", message, ms));
    }
  }

  private emitted(name: unknown, text: unknown): void {
    const value = parsed(text);
    if (typeof name !== "string" || !this.given.emits.includes(name) || value === undefined) return;
    // Between runs there is nothing to emit: whoever leaves something running behind is not listened to.
    if (this.current === null) return;
    const emitted = ++this.current.emitted;
    if (emitted <= MOST_EMITTED) this.host.emit(name, value);
    // Those of the run before may still come. Whoever sends more has got past the VM's own side, and would keep the page busy.
    else if (emitted > 2 * MOST_EMITTED) this.stop("it sends more than it may");
  }

  private added(table: unknown, row: unknown): void {
    if (this.current === null || ++this.current.added > MOST_ADDED) return;
    try {
      this.host.add(table, row);
    } catch {
      // The VM's own side tells a task that its row does not fit: this is none of its rows.
    }
  }

  private async reply(id: number, ask: () => Promise<unknown>): Promise<void> {
    if (this.asked >= MOST_ASKED) return this.stop("it sends more than it may");
    this.asked++;
    let answer: Reply;
    try {
      answer = { kind: "reply", id, value: await ask(), error: null };
    } catch (cause) {
      answer = {
        kind: "reply",
        id,
        value: null,
        error: cause instanceof Error ? cause.message : String(cause),
      };
    }
    this.asked--;
    if (this.broken === null) this.given.worker.postMessage(answer);
  }
}

function outcome(kind: Outcome["kind"], message: string, ms: number): Outcome {
  return { kind, result: null, message, ms };
}

function parsed(text: unknown): unknown {
  if (typeof text !== "string" || text.length > MOST_TEXT) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
