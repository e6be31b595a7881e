import { isEvent, type PageEvent } from "./event";
import { Sequences } from "./sequences";
import { Source } from "./streams";
import { Triggers } from "./triggers";

/** Where state outlives a page: `sessionStorage`, which a tab keeps over reloads, or `localStorage`. */
export interface Storage {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
}

const KEY = "tapml.agent.events/1";

/**
 * The events of a page: sequences, triggers and streams, fed one event at a time.
 * `fired` is told which triggers an event completed, after streams and sequences have it.
 */
export class EventProcessor {
  readonly sequences = new Sequences();
  readonly triggers = new Triggers();
  private readonly streams = new Map<string, Source<PageEvent>>();

  constructor(private readonly fired: (names: readonly string[], event: PageEvent) => void) {}

  /** The stream of all events, for one user of it; the name is that of its state, where it is to survive a reload. */
  stream(name: string): Source<PageEvent> {
    const source = this.streams.get(name) ?? new Source<PageEvent>();
    this.streams.set(name, source);
    return source;
  }

  /** Throws TypeError for what is no event. */
  add(event: PageEvent): void {
    if (!isEvent(event))
      throw new TypeError("this is no event: kind, id, page, time and contents are needed");
    const taken = this.sequences.add(event);
    const fired = this.triggers.next(taken);
    for (const stream of this.streams.values()) stream.push(taken, taken.time);
    if (fired.length > 0) this.fired(fired, taken);
  }

  /** It is `time` now (milliseconds since 1970): windows that are over are given. */
  advance(time: number): void {
    for (const stream of this.streams.values()) stream.advance(time);
  }

  /**
   * Whether it could be kept; a full storage keeps what it had. Call it when a page is hidden: storages of pages are
   * written at once.
   */
  save(storage: Storage): boolean {
    try {
      storage.setItem(KEY, JSON.stringify(this.snapshot()));
      return true;
    } catch {
      return false;
    }
  }

  /**
   * Goes on where the page before this one ended. Call it when triggers and streams are as they were then: what is
   * pending for triggers that are gone is left, and so is all that cannot be read.
   */
  load(storage: Storage): void {
    let kept: Record<string, unknown> = {};
    try {
      kept = (JSON.parse(storage.getItem(KEY) ?? "{}") ?? {}) as Record<string, unknown>;
    } catch {
      // Somebody else wrote there: the page begins anew.
    }
    this.restore(kept);
  }

  protected snapshot(): Record<string, unknown> {
    const streams = Object.fromEntries([...this.streams].map(([name, stream]) => [name, stream.snapshot()]));
    return { sequences: this.sequences.snapshot(), pending: this.triggers.snapshot(), streams };
  }

  protected restore(kept: Record<string, unknown>): void {
    this.sequences.restore(kept.sequences);
    this.triggers.restore(kept.pending);
    const streams = (kept.streams ?? {}) as Record<string, unknown>;
    for (const [name, stream] of this.streams) stream.restore(streams[name]);
  }
}
