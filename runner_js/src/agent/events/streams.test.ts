import { describe, expect, it } from "vitest";
import type { Kind, PageEvent } from "./event";
import { EventProcessor } from "./processor";
import { Sequences } from "./sequences";
import { Source, type Window } from "./streams";

const event = (kind: Kind, page: string, time: number, contents = {}): PageEvent => ({
  kind,
  id: kind,
  page,
  time,
  contents,
});

class Kept {
  readonly items = new Map<string, string>();
  full = false;

  getItem(key: string): string | null {
    return this.items.get(key) ?? null;
  }

  setItem(key: string, value: string): void {
    if (this.full) throw new DOMException("no room", "QuotaExceededError");
    this.items.set(key, value);
  }
}

describe("Stream", () => {
  it("filters, maps, and gives windows by key when they are over", () => {
    const source = new Source<{ item: string; price: number }>();
    const windows: Window<number>[] = [];
    source
      .filter(({ price }) => price > 0)
      .keyBy(({ item }) => item)
      .map(({ price }) => price)
      .timeWindow({ milliseconds: 10 })
      .each((window) => windows.push(window));
    source.push({ item: "a", price: 1 }, 12);
    source.push({ item: "b", price: 2 }, 13);
    source.push({ item: "a", price: 0 }, 14);
    source.push({ item: "a", price: 3 }, 19);
    expect(windows).toEqual([]);
    source.push({ item: "a", price: 4 }, 20);
    expect(windows).toEqual([
      { key: "a", from: 10, until: 20, values: [1, 3] },
      { key: "b", from: 10, until: 20, values: [2] },
    ]);
    source.advance(29);
    expect(windows).toHaveLength(2);
    source.advance(1_000);
    expect(windows.slice(2)).toEqual([{ key: "a", from: 20, until: 30, values: [4] }]);
  });

  it("slides: a value is in every window that covers its time", () => {
    const source = new Source<number>();
    const windows: Window<number>[] = [];
    source.timeWindow({ milliseconds: 10, every: 4 }).each((window) => windows.push(window));
    for (const time of [1, 5, 9, 14]) source.push(time, time);
    source.advance(100);
    const covered = (from: number) => [1, 5, 9, 14].filter((time) => time >= from && time < from + 10);
    expect(windows.map(({ from, values }) => [from, values])).toEqual(
      [-8, -4, 0, 4, 8, 12].map((from) => [from, covered(from)]),
    );
    expect(() => source.timeWindow({ milliseconds: 10, every: 0 })).toThrow(RangeError);
    expect(() => source.timeWindow({ milliseconds: Number.NaN })).toThrow(RangeError);
  });

  it("windows of windows: one is over in the order of time", () => {
    const source = new Source<number>();
    const sums: number[] = [];
    source
      .timeWindow({ milliseconds: 10 })
      .map(({ values }) => values.length)
      .timeWindow({ milliseconds: 100 })
      .each(({ values }) => sums.push(values.reduce((sum, one) => sum + one, 0)));
    for (let time = 0; time < 300; time++) source.push(time, time);
    // The window [90, 100) is over at 100, so it counts to the hundred that begins there.
    expect(sums).toEqual([90, 100]);
  });
});

describe("Sequences", () => {
  it("are by time, and by stay on a page", () => {
    const sequences = new Sequences();
    for (const [kind, page, time] of [
      ["enter", "home", 1],
      ["click", "home", 2],
      ["enter", "item", 3],
      ["scroll", "item", 4],
      ["exit", "item", 5],
      ["exit", "home", 6],
      ["enter", "home", 7],
    ] as const)
      sequences.add(event(kind, page, time));
    expect(sequences.time().map(({ time }) => time)).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(
      sequences.pages().map(({ page, entered, exited, events }) => [page, entered, exited, events.length]),
    ).toEqual([
      ["home", 1, 6, 3],
      ["item", 3, 5, 3],
      ["home", 7, null, 1],
    ]);
  });

  it("keep the newest, and time never goes back", () => {
    const sequences = new Sequences({ events: 3 });
    for (const time of [5, 4, 6, 7, 3, 8, 9]) sequences.add(event("click", "home", time));
    expect(sequences.time().map(({ time }) => time)).toEqual([7, 8, 9]);
    expect(sequences.pages()[0]?.events).toHaveLength(3);
  });
});

describe("EventProcessor", () => {
  it("goes on after a reload: sequences, pending triggers, windows", () => {
    const storage = new Kept();
    const page = () => {
      const fired: string[] = [];
      const windows: Window<number>[] = [];
      const processor = new EventProcessor((names) => fired.push(...names));
      processor.triggers.add("task", ["enter", "scroll", "click"]);
      processor
        .stream("times")
        .map(({ time }) => time)
        .timeWindow({ milliseconds: 100 })
        .each((window) => windows.push(window));
      processor.load(storage);
      return { processor, fired, windows };
    };
    const before = page();
    for (const one of [event("enter", "home", 1), event("scroll", "home", 2)]) before.processor.add(one);
    expect(before.processor.save(storage)).toBe(true);
    const after = page();
    after.processor.add(event("click", "home", 3, { item: 7 }));
    expect(after.fired).toEqual(["task"]);
    after.processor.advance(100);
    expect(after.windows).toEqual([{ key: "", from: 0, until: 100, values: [1, 2, 3] }]);
    expect(after.processor.sequences.pages()[0]?.events.map(({ time }) => time)).toEqual([1, 2, 3]);
  });

  it("begins anew where nothing can be read, and says when nothing could be kept", () => {
    for (const kept of [
      "",
      "no",
      "null",
      "[]",
      '{"sequences":{"events":[{"kind":"click"}]},"pending":7,"streams":[]}',
    ]) {
      const storage = new Kept();
      storage.items.set("tapml.agent.events/1", kept);
      const processor = new EventProcessor(() => {});
      processor.stream("all").timeWindow({ milliseconds: 5 });
      processor.load(storage);
      expect(processor.sequences.time()).toEqual([]);
      storage.full = true;
      expect(processor.save(storage)).toBe(false);
    }
    expect(() => new EventProcessor(() => {}).add({ kind: "click" } as PageEvent)).toThrow(TypeError);
  });
});
