import type { PageEvent } from "./event";
import { EventProcessor } from "./processor";
import { Triggers } from "./triggers";

/** What an agent's task is to events. */
export interface TriggeredTask {
  readonly name: string;
  readonly configuration: { readonly triggers: readonly (readonly string[])[] };
  start(event: unknown): Promise<unknown>;
}

/** What an agent is to events; `Agent` of @tapml/agent is one. */
export interface TaskHolder {
  readonly tasks: ReadonlyMap<string, TriggeredTask>;
  on(kind: "installed" | "removed", listener: (task: TriggeredTask) => void): () => void;
  on(kind: "pulled", listener: () => void): () => void;
}

/** Of a task that is installed late, for events before; and of a page before. */
const MOST_STARTS = 20;

/** A run that was started and has not ended. */
interface Start {
  readonly name: string;
  readonly event: PageEvent;
}

/**
 * A processor whose events start the agent's tasks, those that it holds now and that it pulls later: by the triggers
 * of their configurations, with `{event, events}`: the event that completed one, and the stay on its page until then. A
 * task that several of its triggers start at one event runs once. Events before the agent's first answer count for what
 * that installs, too; and runs that had not ended when their page did are started again, where state outlives a page.
 */
export function startByEvents(agent: TaskHolder): EventProcessor {
  const processor = new TaskProcessor();
  for (const task of agent.tasks.values()) processor.hold(task);
  agent.on("installed", (task) => processor.hold(task));
  agent.on("removed", ({ name }) => processor.leave(name));
  agent.on("pulled", () => processor.settle());
  return processor;
}

class TaskProcessor extends EventProcessor {
  /** By name, and which task each trigger starts. */
  private readonly tasks = new Map<string, TriggeredTask>();
  private readonly owners = new Map<string, string>();
  private readonly running = new Set<Start>();
  /** How many events there were before the agent's first answer; null after it. */
  private early: number | null = 0;
  /** Of the page before: what was pending, and runs of tasks that are not held yet. */
  private pendingBefore: unknown = [];
  private cutOff: Start[] = [];
  private taken = false;

  constructor() {
    super((names, event) => this.fire(names, event));
  }

  override add(event: PageEvent): void {
    super.add(event);
    if (this.early !== null) this.early++;
  }

  /** A task, or a newer version of one: what was pending goes on where triggers begin alike. */
  hold(task: TriggeredTask): void {
    const isNew = !this.tasks.has(task.name);
    const waiting = this.triggers.snapshot();
    this.leave(task.name);
    this.tasks.set(task.name, task);
    const own = new Triggers();
    for (const [at, sequence] of task.configuration.triggers.entries()) {
      const name = `${task.name} ${at}`;
      this.owners.set(name, task.name);
      this.triggers.add(name, sequence);
      own.add(name, sequence);
    }
    const completing: PageEvent[] = [];
    if (this.early !== null) {
      own.restore(this.pendingBefore);
      const events = this.early > 0 ? this.sequences.time().slice(-this.early) : [];
      for (const event of events) if (own.next(event).length > 0) completing.push(event);
    }
    this.triggers.restore([...waiting, ...own.snapshot()]);
    for (const { event } of this.cutOff.filter(({ name }) => name === task.name)) this.begin(task, event);
    this.cutOff = this.cutOff.filter(({ name }) => name !== task.name);
    // An older version has been started by them.
    if (isNew) for (const event of completing.slice(-MOST_STARTS)) this.begin(task, event);
  }

  leave(name: string): void {
    this.tasks.delete(name);
    for (const [trigger, owner] of [...this.owners]) {
      if (owner !== name) continue;
      this.triggers.remove(trigger);
      this.owners.delete(trigger);
    }
  }

  /** The tasks are those that the device is to hold. */
  settle(): void {
    this.early = null;
    this.pendingBefore = [];
    this.cutOff = [];
  }

  protected override snapshot(): Record<string, unknown> {
    const state = super.snapshot();
    const events = this.sequences.time();
    const starts = [...this.running, ...this.cutOff].map(({ name, event }) => [
      name,
      events.findLastIndex((one) => isSame(one, event)),
    ]);
    return { ...state, starts };
  }

  protected override restore(kept: Record<string, unknown>): void {
    super.restore(kept);
    if (this.taken) return; // by then runs are this page's own
    this.taken = true;
    if (this.early !== null) this.pendingBefore = kept.pending;
    const events = this.sequences.time();
    for (const start of Array.isArray(kept.starts) ? kept.starts.slice(-MOST_STARTS) : []) {
      const [name, at] = Array.isArray(start) ? start : [];
      const event = Number.isInteger(at) ? events[at] : undefined;
      if (event === undefined) continue;
      const task = this.tasks.get(name);
      if (task !== undefined) this.begin(task, event);
      else if (this.early !== null) this.cutOff.push({ name, event });
    }
  }

  private fire(names: readonly string[], event: PageEvent): void {
    for (const owner of new Set(names.map((name) => this.owners.get(name)))) {
      const task = this.tasks.get(owner ?? "");
      if (task !== undefined) this.begin(task, event);
    }
  }

  private begin(task: TriggeredTask, event: PageEvent): void {
    const stay = this.sequences.pages().findLast(({ events }) => events.includes(event))?.events ?? [];
    const events = stay.slice(0, stay.indexOf(event) + 1);
    const start = { name: task.name, event };
    this.running.add(start);
    void task.start({ event, events }).then(() => this.running.delete(start));
  }
}

/** What was kept and read again is another object. */
function isSame(one: PageEvent, other: PageEvent): boolean {
  return one.time === other.time && one.kind === other.kind && one.id === other.id && one.page === other.page;
}
