import { isEvent, type PageEvent } from "./event";

/** One stay on a page. */
export interface Visit {
  readonly page: string;
  /** Of its first event. */
  readonly entered: number;
  /** Of its exit; null while it goes on, and where it ended without one. */
  readonly exited: number | null;
  /** All of it, from enter to exit, in order. */
  readonly events: readonly PageEvent[];
}

type OpenVisit = { page: string; entered: number; exited: number | null; events: PageEvent[] };

export interface SequenceLimits {
  /** The oldest go first. */
  events: number;
}

/**
 * What happened: the time-level sequence, all events in order, and the page-level sequence, the same by stay on a page.
 * Time never goes back: a clock that was set back counts as standing still.
 */
export class Sequences {
  private events: PageEvent[] = [];
  private visits: OpenVisit[] = [];
  private readonly open = new Map<string, OpenVisit>();

  constructor(private readonly limits: SequenceLimits = { events: 2_000 }) {}

  /** The event as it was taken. */
  add(event: PageEvent): PageEvent {
    const last = this.events.at(-1)?.time ?? event.time;
    const taken = event.time < last ? { ...event, time: last } : event;
    this.events.push(taken);
    this.visit(taken).events.push(taken);
    if (taken.kind === "exit") this.leave(taken);
    // Now and then: an event does not pay for all that are kept.
    if (this.events.length >= 2 * this.limits.events) this.trim();
    return taken;
  }

  /** The time-level sequence, the oldest first. */
  time(): readonly PageEvent[] {
    return this.events.slice(-this.limits.events);
  }

  /** The page-level sequence, by when each stay began; those that go on among them. */
  pages(): readonly Visit[] {
    const kept = new Set(this.time());
    return this.visits
      .map((visit) => ({ ...visit, events: visit.events.filter((event) => kept.has(event)) }))
      .filter((visit) => visit.events.length > 0);
  }

  snapshot(): unknown {
    this.trim();
    return { events: this.events, open: [...this.open.keys()] };
  }

  /** Goes on from a snapshot: stays that went on still do. What is no snapshot is none. */
  restore(snapshot: unknown): void {
    const { events } = (snapshot ?? {}) as { events?: unknown };
    this.events = [];
    this.visits = [];
    this.open.clear();
    for (const event of Array.isArray(events) ? events : []) if (isEvent(event)) this.add(event);
  }

  private visit(event: PageEvent): OpenVisit {
    const open = this.open.get(event.page);
    if (open !== undefined && event.kind !== "enter") return open;
    const visit: OpenVisit = { page: event.page, entered: event.time, exited: null, events: [] };
    this.visits.push(visit);
    this.open.set(event.page, visit);
    return visit;
  }

  private leave(event: PageEvent): void {
    const visit = this.open.get(event.page);
    if (visit !== undefined) visit.exited = event.time;
    this.open.delete(event.page);
  }

  private trim(): void {
    this.events = this.events.slice(-this.limits.events);
    const kept = new Set(this.events);
    for (const visit of this.visits) visit.events = visit.events.filter((event) => kept.has(event));
    this.visits = this.visits.filter(
      (visit) => visit.events.length > 0 || this.open.get(visit.page) === visit,
    );
  }
}
