/** @tapml/agent: pulls tasks that the page's key signed, and runs each in a Python VM of its own (docs/field.md). */
import type {
  Agent,
  AgentEvents,
  AgentOptions,
  AgentStore,
  Emitted,
  Task,
  TaskFailure,
  TaskRun,
  VmWorker,
} from "./api";
import { type Answer, compareVersions, type Offer, readAnswer, readConfiguration } from "./documents";
import { AgentError } from "./error";
import { TaskHost } from "./host";
import { patient } from "./patience";
import { drawDevice, profileHeader } from "./profile";
import { download, pullVersion, type Source, type Version } from "./pull";
import { browserStore } from "./store";
import { HeldTask } from "./task";
import { readKey } from "./trust";
import { Vm } from "./vm";

export type * from "./api";
export { AgentError, type AgentErrorKind } from "./error";

const MOST_ANSWER = 1_000_000;
/** Milliseconds between two reports of a task that did the same. */
const REPORT = 10_000;

/** Rejects with an AgentError. What the device holds from an earlier visit is there again. */
export async function createAgent(options: AgentOptions): Promise<Agent> {
  const key = await readKey(options.key);
  const service = new URL(options.service, globalThis.location?.href).href;
  if (!service.endsWith("/"))
    throw new AgentError("input", `the service's address ${service} names no folder`, "end it with a /");
  const store = options.store ?? (await browserStore());
  const get = options.fetch ?? ((url, init) => fetch(url, init));
  const grant = options.grant ?? (async () => null);
  const ended = new AbortController();
  const source = { service, key, store, fetch: patient(get, ended.signal), grant };
  const made = new PageAgent(options, source, get, ended, await deviceOf(store));
  await made.restore();
  return made;
}

async function deviceOf(store: AgentStore): Promise<string> {
  const kept = await store.get("device");
  const name = kept === null ? "" : new TextDecoder().decode(kept);
  if (/^[A-Za-z0-9_-]{16,64}$/.test(name)) return name;
  const drawn = drawDevice();
  await store.set("device", new TextEncoder().encode(drawn)).catch(() => {});
  return drawn;
}

interface Held {
  readonly offer: Offer;
  readonly task: HeldTask;
  readonly host: TaskHost;
}

class PageAgent implements Agent {
  private readonly held = new Map<string, Held>();
  private readonly listeners = new Map<keyof AgentEvents, Set<(what: never) => void>>();
  private readonly reported = new Map<string, { at: number; failed: boolean }>();
  private applying: Promise<void> = Promise.resolve();
  private snapshot: Promise<Uint8Array | null> | null = null;

  constructor(
    private readonly options: AgentOptions,
    private readonly source: Source,
    /** The page's own requests, which wait for nothing. */
    private readonly get: typeof fetch,
    private readonly ended: AbortController,
    readonly device: string,
  ) {
    this.profile(); // too long: the page's own mistake
  }

  get tasks(): ReadonlyMap<string, Task> {
    return new Map([...this.held].map(([name, { task }]) => [name, task]));
  }

  profile(): string {
    const holds = Object.fromEntries([...this.held].map(([name, { task }]) => [name, task.version]));
    return profileHeader(this.device, this.options, holds);
  }

  async fetch(url: string | URL, init: RequestInit = {}): Promise<Response> {
    const page = globalThis.location?.href;
    const { origin } = new URL(url, page);
    if (
      origin !== new URL(this.source.service).origin &&
      (page === undefined || origin !== new URL(page).origin)
    )
      return await this.get(url, init);
    const headers = new Headers(init.headers);
    headers.set("Tapml-Profile", this.profile());
    const answer = await this.get(url, { ...init, headers });
    const said = answer.headers.get("Tapml-Answer");
    // What is wrong with tasks is never the page's.
    if (said !== null) void this.apply(() => readAnswer(new TextEncoder().encode(said))).catch(() => {});
    return answer;
  }

  async pull(): Promise<void> {
    const headers = { "Tapml-Profile": this.profile() };
    const data = await download(this.source, "answer", MOST_ANSWER, headers);
    await this.apply(() => readAnswer(data));
  }

  on<K extends keyof AgentEvents>(kind: K, listener: (what: AgentEvents[K]) => void): () => void {
    const all = this.listeners.get(kind) ?? new Set();
    this.listeners.set(kind, all);
    all.add(listener);
    return () => void all.delete(listener);
  }

  close(): void {
    this.ended.abort(new AgentError("service", "the agent was closed", "make another one"));
    for (const name of [...this.held.keys()]) this.drop(name);
  }

  /** What was held at the last visit. What is no longer whole is pulled again when the service offers it. */
  async restore(): Promise<void> {
    const kept = await this.source.store.get("holds");
    if (kept === null) return;
    try {
      const install = JSON.parse(new TextDecoder().decode(kept)) as Offer[];
      const answer = readAnswer(new TextEncoder().encode(JSON.stringify({ install, remove: [] })));
      await this.apply(() => answer);
    } catch {
      await this.source.store.delete("holds");
    }
  }

  /** One answer after the other. */
  private apply(read: () => Answer): Promise<void> {
    const done = this.applying.then(async () => {
      const { install, remove } = read();
      for (const name of remove) this.drop(name);
      for (const offer of install) if (!this.ended.signal.aborted) await this.install(offer);
      if (!this.ended.signal.aborted) await this.keep();
    });
    this.applying = done.catch(() => {});
    return done;
  }

  private async install(offer: Offer): Promise<void> {
    const { task: name, version, manifest } = offer;
    if (this.held.get(name)?.offer.manifest === manifest) return;
    try {
      const least = this.options.least?.[name];
      if (least !== undefined && compareVersions(version, least) < 0)
        throw new AgentError("untrusted", `${name} ${version} is older than ${least}`, "ask another service");
      const found = await pullVersion(this.source, offer);
      if (this.ended.signal.aborted) return;
      const held = this.prepared(found);
      this.drop(name);
      this.held.set(name, held);
      held.task.begin();
      this.say("installed", held.task);
    } catch (cause) {
      const message = cause instanceof Error ? cause.message : String(cause);
      this.say("failed", { task: name, version, kind: "pull", message, at: Date.now() });
    }
  }

  /** Of files that are checked. */
  private prepared({ offer, files }: Version): Held {
    const { task: name, version } = offer;
    const file = files.get("task.json");
    if (file === undefined)
      throw new AgentError(
        "input",
        `${name} ${version} has no task.json`,
        "docs/field.md says what is in it",
      );
    const configuration = readConfiguration(file);
    const emit = (what: string, value: unknown): void => {
      const emitted: Emitted = { task: name, version, name: what, value, at: Date.now() };
      this.say("emitted", emitted);
    };
    const host = new TaskHost(name, configuration, files, this.options, emit);
    const task = new HeldTask(name, version, configuration, {
      start: () => this.startVm(files, configuration, host),
      ran: (run) => {
        this.say("ran", run);
        void this.report(run);
      },
      failed: (failure: TaskFailure) => this.say("failed", failure),
      now: () => performance.now(),
    });
    return { offer, task, host };
  }

  /** The first VM gives the others the memory of one that has just started. */
  private async startVm(
    files: Version["files"],
    { main, emits, needs }: Task["configuration"],
    host: TaskHost,
  ): Promise<Vm> {
    const base = this.options.base ?? import.meta.url.replace(/[^/]*$/, "");
    const models = needs.models;
    const own = new Map([...files].filter(([path]) => !models.some((model) => path.startsWith(model))));
    const begin = (snapshot: Uint8Array | null): Promise<Vm> => {
      const worker = (this.options.spawn ?? spawned)(base);
      const makeSnapshot = snapshot === null;
      return Vm.start(
        { worker, python: `${base}python/`, snapshot, makeSnapshot, files: own, main, emits },
        host,
      );
    };
    const known = await this.snapshot;
    if (known !== null) return await begin(known);
    const first = begin(null);
    this.snapshot = first.then(
      (vm) => vm.snapshot,
      () => null,
    );
    return await first;
  }

  private drop(name: string): void {
    const held = this.held.get(name);
    if (held === undefined) return;
    this.held.delete(name);
    held.task.close();
    held.host.close();
    this.say("removed", held.task);
  }

  private async keep(): Promise<void> {
    const offers = [...this.held.values()].map(({ offer }) => offer);
    const kept = new TextEncoder().encode(JSON.stringify(offers));
    await this.source.store.set("holds", kept).catch(() => {});
  }

  /** To the service. A run that tells nothing new is not reported. */
  private async report({ task, version, failed, ms }: TaskRun): Promise<void> {
    const name = `${task} ${version}`;
    const [last, at] = [this.reported.get(name), performance.now()];
    if (last !== undefined && at - last.at < REPORT && (last.failed || !failed)) return;
    this.reported.set(name, { at, failed });
    const headers = { "Tapml-Profile": this.profile(), "Content-Type": "application/json" };
    const body = JSON.stringify({ task, version, failed, ms: failed ? null : ms });
    const init: RequestInit = { method: "POST", headers, body, credentials: "omit" };
    await this.source.fetch(`${this.source.service}reports`, init).catch(() => {});
  }

  /** A listener that throws is the page's own matter, and no other's. */
  private say<K extends keyof AgentEvents>(kind: K, what: AgentEvents[K]): void {
    for (const listener of this.listeners.get(kind) ?? [])
      try {
        (listener as (what: AgentEvents[K]) => void)(what);
      } catch (cause) {
        queueMicrotask(() => {
          throw cause;
        });
      }
  }
}

/** A module worker of the browser. */
function spawned(base: string): VmWorker {
  const worker = new Worker(`${base}tapml-vm.js`, { type: "module" });
  return {
    postMessage: (message, transfer = []) => worker.postMessage(message, transfer),
    onMessage: (listener) => worker.addEventListener("message", ({ data }) => listener(data)),
    onError: (listener) =>
      worker.addEventListener("error", (event) => listener(event.message ?? "it cannot be loaded")),
    terminate: () => worker.terminate(),
  };
}
