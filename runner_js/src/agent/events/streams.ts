/** Streams of values in time: filter, map, keyBy, timeWindow; what windows hold is kept over a reload. */

/** What fell into one window. */
export interface Window<T> {
  /** What `keyBy` gave; "" without one. */
  readonly key: string;
  /** Milliseconds since 1970; `until` is not part of it. */
  readonly from: number;
  readonly until: number;
  /** In order. */
  readonly values: readonly T[];
}

export interface WindowOptions {
  milliseconds: number;
  /** Between the beginnings of two windows; `milliseconds` where it is left out: no value is in two. */
  every?: number;
}

type Sink<T> = (value: T, time: number, key: string) => void;

/** An operator that holds values. */
interface Stateful {
  /** What it is: state of another is not taken. */
  readonly form: string;
  advance(time: number): void;
  snapshot(): unknown;
  restore(state: unknown): void;
}

/** Of all windows of an operator; what comes beyond is not taken, and counted. */
const MOST_VALUES = 100_000;

/** Values on their way; every operator gives the next stream, and one stream may go several ways. */
export class Stream<T> {
  private readonly sinks: Sink<T>[] = [];

  constructor(protected readonly stateful: Stateful[]) {}

  /** Those that `rule` holds for. */
  filter(rule: (value: T) => boolean): Stream<T> {
    return this.through((out) => (value, time, key) => {
      if (rule(value)) out(value, time, key);
    });
  }

  /** Others in their place, at the same times. */
  map<U>(change: (value: T) => U): Stream<U> {
    return this.through((out) => (value, time, key) => out(change(value), time, key));
  }

  /** Kept apart by a key from here on: windows are of one key each. */
  keyBy(key: (value: T) => string): Stream<T> {
    return this.through((out) => (value, time) => out(value, time, key(value)));
  }

  /**
   * What fell into each window, when it is over: with the first value after it, or with `advance`. Windows begin at
   * multiples of `every` since 1970. Values have to be JSON, for they outlive the page. Throws RangeError for a length
   * that is none.
   */
  timeWindow(options: WindowOptions): Stream<Window<T>> {
    const { milliseconds, every = milliseconds } = options;
    if (!(every >= 1) || !(milliseconds >= every) || milliseconds / every > 1_000)
      throw new RangeError("a window has at least 1 ms, and begins at most 1,000 times in its length");
    return this.through((out) => {
      const windows = new Windows<T>(milliseconds, every, (window) => out(window, window.until, window.key));
      this.stateful.push(windows);
      return (value, time, key) => windows.take(value, time, key);
    });
  }

  /** What is done with each. */
  each(action: (value: T, time: number) => void): this {
    this.sinks.push(action);
    return this;
  }

  protected emit(value: T, time: number, key: string): void {
    for (const sink of this.sinks) sink(value, time, key);
  }

  private through<U>(operator: (out: Sink<U>) => Sink<T>): Stream<U> {
    const next = new Stream<U>(this.stateful);
    this.sinks.push(operator((value, time, key) => next.emit(value, time, key)));
    return next;
  }
}

/** Where values come in. */
export class Source<T> extends Stream<T> {
  private last = Number.NEGATIVE_INFINITY;

  constructor() {
    super([]);
  }

  /** Times never go back: an earlier one counts as the last. */
  push(value: T, time: number): void {
    this.advance(time);
    this.emit(value, this.last, "");
  }

  /** It is `time` now, without a value: windows that are over are given. */
  advance(time: number): void {
    if (time <= this.last) return;
    this.last = time;
    for (const operator of this.stateful) operator.advance(time);
  }

  /** What the windows hold. JSON where the values are. */
  snapshot(): unknown {
    return this.stateful.map(({ form, snapshot }, at) => ({ form, state: snapshot.call(this.stateful[at]) }));
  }

  /** Goes on from a snapshot of a stream that was made of the same operators; the state of others is left. */
  restore(snapshot: unknown): void {
    const kept = Array.isArray(snapshot) ? snapshot : [];
    for (const [at, operator] of this.stateful.entries()) {
      const one = kept[at] as { form?: unknown; state?: unknown } | null | undefined;
      if (one?.form === operator.form) operator.restore(one.state);
    }
  }
}

class Windows<T> implements Stateful {
  readonly form: string;
  /** By beginning, then by key. */
  private readonly open = new Map<number, Map<string, T[]>>();
  private held = 0;
  /** Values that found no room. */
  private missed = 0;
  private due = Number.POSITIVE_INFINITY;

  constructor(
    private readonly milliseconds: number,
    private readonly every: number,
    private readonly out: (window: Window<T>) => void,
  ) {
    this.form = `windows of ${milliseconds} every ${every}`;
  }

  take(value: T, time: number, key: string): void {
    const newest = Math.floor(time / this.every) * this.every;
    const oldest = newest - this.milliseconds;
    for (let from = newest; from > oldest && from + this.milliseconds > time; from -= this.every) {
      this.put(from, key, value);
    }
  }

  advance(time: number): void {
    if (time < this.due) return;
    const over = [...this.open.keys()].filter((from) => from + this.milliseconds <= time);
    for (const from of over.sort((one, other) => one - other)) {
      const keys = this.open.get(from) ?? new Map<string, T[]>();
      this.open.delete(from);
      for (const [key, values] of keys) {
        this.held -= values.length;
        this.out({ key, from, until: from + this.milliseconds, values });
      }
    }
    this.due = Math.min(...[...this.open.keys()].map((from) => from + this.milliseconds));
  }

  snapshot(): unknown {
    return { missed: this.missed, windows: [...this.open].map(([from, keys]) => [from, [...keys]]) };
  }

  restore(state: unknown): void {
    const { windows } = (state ?? {}) as { windows?: unknown };
    for (const window of Array.isArray(windows) ? windows : []) {
      const [from, keys] = Array.isArray(window) ? window : [];
      if (!Number.isFinite(from) || !Array.isArray(keys)) continue;
      for (const one of keys) {
        const [key, values] = Array.isArray(one) ? one : [];
        if (typeof key !== "string" || !Array.isArray(values)) continue;
        for (const value of values) this.put(from, key, value);
      }
    }
  }

  private put(from: number, key: string, value: T): void {
    if (this.held >= MOST_VALUES) {
      this.missed += 1;
      return;
    }
    const keys = this.open.get(from) ?? new Map<string, T[]>();
    this.open.set(from, keys);
    const values = keys.get(key);
    if (values === undefined) keys.set(key, [value]);
    else values.push(value);
    this.held += 1;
    this.due = Math.min(this.due, from + this.milliseconds);
  }
}
