/** @tapml/agent: pulls tasks that the page's key signed, and runs each in a Python VM of its own (docs/field.md). */
import type {
  Agent,
  AgentEvents,
  AgentOptions,
  Emitted,
  Found,
  Task,
  TaskFailure,
  Value,
  VmWorker,
  WorkerModule,
} from "./api";
import { type Answer, compareVersions, type Offer, readAnswer, readConfiguration } from "./documents";
import { AgentError } from "./error";
import { TaskHost } from "./host";
import { patient } from "./patience";
import { deviceOf, profileHeader } from "./profile";
import { download, pullVersion, type Source, type Version } from "./pull";
import { Reports } from "./reports";
import { Sampler } from "./samples";
import { StorageClient } from "./storage/client";
import { TaskTables } from "./storage/tables";
import { browserStore } from "./store";
import { HeldTask } from "./task";
import { readKey } from "./trust";
import { Vm } from "./vm";
import { spawned } from "./workers";

export type * from "./api";
export { AgentError, type AgentErrorKind } from "./error";

const MOST_ANSWER = 1_000_000;

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
  const made = new PageAgent(options, source, get, ended, await deviceOf(store, options.device));
  await made.restore();
  return made;
}

interface Held {
  readonly offer: Offer;
  readonly task: HeldTask;
  readonly host: TaskHost;
}

class PageAgent implements Agent {
  private readonly held = new Map<string, Held>();
  private readonly listeners = new Map<keyof AgentEvents, Set<(what: never) => void>>();
  private readonly reports: Reports;
  private applying: Promise<void> = Promise.resolve();
  private snapshot: Promise<Uint8Array | null> | null = null;
  private readonly storage: StorageClient;
  private readonly hidden = (): void => {
    if (document.visibilityState === "hidden") for (const { host } of this.held.values()) void host.write();
  };

  constructor(
    private readonly options: AgentOptions,
    private readonly source: Source,
    /** The page's own requests, which wait for nothing. */
    private readonly get: typeof fetch,
    private readonly ended: AbortController,
    readonly device: string,
  ) {
    this.profile(); // too long: the page's own mistake
    this.reports = new Reports(source, () => this.profile());
    this.storage = new StorageClient(
      () => this.spawn("tapml-storage"),
      (place) => this.say("storage", place),
    );
    // A page that is not seen may be gone without a word.
    globalThis.document?.addEventListener("visibilitychange", this.hidden);
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

  async sql(task: string, text: string, values: readonly Value[] = []): Promise<Found> {
    const host = this.held.get(task)?.host;
    if (host === undefined) throw new AgentError("input", `no task ${task} is held`, "look at agent.tasks");
    return await host.sql(text, values).catch((cause: Error) => {
      throw new AgentError("input", `SQL to ${task}: ${cause.message}`, "docs/field.md says what it may do");
    });
  }

  on<K extends keyof AgentEvents>(kind: K, listener: (what: AgentEvents[K]) => void): () => void {
    const all = this.listeners.get(kind) ?? new Set();
    this.listeners.set(kind, all);
    all.add(listener);
    return () => void all.delete(listener);
  }

  close(): void {
    this.ended.abort(new AgentError("service", "the agent was closed", "make another one"));
    globalThis.document?.removeEventListener("visibilitychange", this.hidden);
    const written = [...this.held.keys()].map((name) => this.drop(name));
    void Promise.all(written).then(() => this.storage.close());
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
      for (const name of remove) this.remove(name);
      for (const offer of install) if (!this.ended.signal.aborted) await this.install(offer);
      if (this.ended.signal.aborted) return;
      await this.keep();
      this.say("pulled", this.tasks);
    });
    this.applying = done.catch(() => {});
    return done;
  }

  private async install(offer: Offer): Promise<void> {
    const { task: name, version, manifest } = offer;
    if (this.held.get(name)?.offer.manifest === manifest) return;
    const failed = (cause: unknown): void => {
      const message = cause instanceof Error ? cause.message : String(cause);
      this.say("failed", { task: name, version, kind: "pull", message, at: Date.now() });
    };
    const least = this.options.least?.[name];
    if (least !== undefined && compareVersions(version, least) < 0) {
      // The page's own rule, which says nothing against the version.
      failed(new AgentError("untrusted", `${name} ${version} is older than ${least}`, "ask another service"));
      return;
    }
    let whole = false;
    try {
      const found = await pullVersion(this.source, offer);
      if (this.ended.signal.aborted) return;
      whole = true;
      const held = this.prepared(found);
      await this.held.get(name)?.host.write();
      void this.drop(name);
      this.held.set(name, held);
      held.task.begin();
      this.say("installed", held.task);
    } catch (cause) {
      failed(cause);
      if (this.reported({ task: name, version })) void this.reports.notInstalled(offer, whole, cause);
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
    const failed = (message: string): void =>
      this.say("failed", { task: name, version, kind: "storage", message, at: Date.now() });
    const { keeps } = configuration;
    const tables = keeps && new TaskTables(name, keeps, this.storage, failed);
    const host = new TaskHost(name, configuration, files, this.options, emit, tables, this.sampler(offer));
    const task = new HeldTask(name, version, configuration, {
      start: () => this.startVm(files, configuration, host),
      ran: (run) => {
        this.say("ran", run);
        // First what it computed, by which the report's step is judged.
        void host.sampled().then((sampled) => {
          if (this.reported(run)) void this.reports.report(run, sampled);
        });
      },
      failed: (failure: TaskFailure) => this.say("failed", failure),
      now: () => performance.now(),
    });
    return { offer, task, host };
  }

  /** By the page's word on reports, or else by that on all that leaves. */
  private reported(what: { task: string; version: string }): boolean {
    const { consent, reports = consent } = this.options;
    return reports?.(what) ?? true;
  }

  private sampler({ task, version, sampling }: Offer): Sampler | null {
    const { consent } = this.options;
    if (sampling === undefined || consent === undefined) return null;
    return new Sampler({
      rates: sampling,
      consent: () => consent({ task, version }),
      send: (file) => this.reports.sample(task, version, file),
      sampled: (what) => this.say("sampled", { task, version, ...what }),
      random: Math.random,
    });
  }

  /** The first VM gives the others the memory of one that has just started. */
  private async startVm(
    files: Version["files"],
    { main, emits, needs, keeps }: Task["configuration"],
    host: TaskHost,
  ): Promise<Vm> {
    const models = needs.models;
    const own = new Map([...files].filter(([path]) => !models.some((model) => path.startsWith(model))));
    const begin = (snapshot: Uint8Array | null): Promise<Vm> => {
      const worker = this.spawn("tapml-vm");
      const makeSnapshot = snapshot === null;
      const given = {
        worker,
        python: `${this.base}python/`,
        snapshot,
        makeSnapshot,
        files: own,
        main,
        emits,
      };
      const { arrays, packages = [] } = this.options;
      return Vm.start({ ...given, tables: keeps?.tables ?? {}, arrays, packages }, host);
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

  private get base(): string {
    return this.options.base ?? import.meta.url.replace(/[^/]*$/, "");
  }

  private spawn(module: WorkerModule): VmWorker {
    return (this.options.spawn ?? spawned)(this.base, module);
  }

  /** What was removed leaves nothing behind. */
  private remove(name: string): void {
    const keeps = this.held.get(name)?.task.configuration.keeps;
    const written = this.drop(name);
    if (keeps) void written.then(() => this.storage.ask({ kind: "erase", task: name })).catch(() => {});
  }

  /** Resolves when what it added is written. */
  private async drop(name: string): Promise<void> {
    const held = this.held.get(name);
    if (held === undefined) return;
    this.held.delete(name);
    held.task.close();
    const written = held.host.close();
    this.say("removed", held.task);
    await written;
  }

  private async keep(): Promise<void> {
    const offers = [...this.held.values()].map(({ offer }) => offer);
    const kept = new TextEncoder().encode(JSON.stringify(offers));
    await this.source.store.set("holds", kept).catch(() => {});
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
