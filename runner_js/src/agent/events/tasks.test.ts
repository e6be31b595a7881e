import { describe, expect, it } from "vitest";
import type { Kind, PageEvent } from "./event";
import { startByEvents, type TaskHolder, type TriggeredTask } from "./tasks";

const event = (kind: Kind, page: string, time: number): PageEvent => ({
  ...{ kind, id: kind, page, time, contents: {} },
});

/** Of an agent what events need: tasks whose runs end when the test says so. */
class Holder implements TaskHolder {
  readonly tasks = new Map<string, TriggeredTask>();
  /** Which version was started by which event, after which. */
  readonly started: [version: string, event: PageEvent, events: readonly PageEvent[]][] = [];
  private readonly told = new Map<string, (task: TriggeredTask) => void>();
  private readonly ends: (() => void)[] = [];

  on(kind: string, listener: (task: TriggeredTask) => void): () => void {
    this.told.set(kind, listener);
    return () => {};
  }

  task(version: string, ...triggers: string[][]): TriggeredTask {
    return {
      name: "shop/a",
      configuration: { triggers },
      start: (given) => {
        const { event, events } = given as { event: PageEvent; events: PageEvent[] };
        this.started.push([version, event, events]);
        return new Promise<void>((resolve) => this.ends.push(resolve));
      },
    };
  }

  say(kind: "installed" | "removed" | "pulled", task?: TriggeredTask): void {
    if (kind === "installed" && task !== undefined) this.tasks.set(task.name, task);
    if (kind === "removed" && task !== undefined) this.tasks.delete(task.name);
    this.told.get(kind)?.(task as TriggeredTask);
  }

  get versions(): string[] {
    return this.started.map(([version]) => version);
  }

  async endAll(): Promise<void> {
    for (const end of this.ends) end();
    await Promise.resolve();
    await Promise.resolve();
  }
}

class Kept {
  text: string | null = null;
  getItem = (): string | null => this.text;
  setItem = (_: string, value: string): void => {
    this.text = value;
  };
}

const VISIT = ["enter", "**", "exit"];
const [enter, click, exit] = [
  event("enter", "home", 1),
  event("click", "home", 2),
  event("exit", "home", 3),
] as const;

describe("startByEvents", () => {
  it("starts what an agent holds, once an event, and follows what is installed and removed", () => {
    const holder = new Holder();
    const first = holder.task("1", ["enter", "click"], ["click"]);
    holder.tasks.set(first.name, first);
    const processor = startByEvents(holder);
    holder.say("pulled");
    for (const one of [enter, click]) processor.add(one);
    expect(holder.started).toEqual([["1", click, [enter, click]]]);
    const second = holder.task("2", ["exit"]);
    holder.say("installed", second);
    processor.add(event("click", "home", 3));
    processor.add(event("exit", "home", 4));
    expect(holder.versions).toEqual(["1", "2"]);
    holder.say("removed", second);
    processor.add(event("exit", "home", 5));
    expect(holder.started).toHaveLength(2);
  });

  it("has events before the first answer count for what that installs, and none after it", () => {
    const holder = new Holder();
    const processor = startByEvents(holder);
    for (const one of [enter, click]) processor.add(one);
    holder.say("installed", holder.task("1", VISIT, ["click"]));
    expect(holder.started).toEqual([["1", click, [enter, click]]]);
    holder.say("pulled");
    processor.add(exit);
    expect(holder.started.slice(1)).toEqual([["1", exit, [enter, click, exit]]]);

    const late = new Holder();
    const later = startByEvents(late);
    late.say("pulled");
    for (const one of [enter, click]) later.add(one);
    late.say("installed", late.task("1", VISIT, ["click"]));
    later.add(exit);
    expect(late.started).toEqual([]);
  });

  it("starts a task that comes late for the last of many events only", () => {
    const holder = new Holder();
    const processor = startByEvents(holder);
    for (let time = 0; time < 300; time++) processor.add(event("click", "home", time));
    holder.say("installed", holder.task("1", ["click"]));
    expect(holder.started.map(([, { time }]) => time)).toEqual(
      Array.from({ length: 20 }, (_, at) => 280 + at),
    );
  });

  it("goes on with a newer version where its triggers begin alike, and starts it by no event that started the older", () => {
    for (const early of [true, false]) {
      const holder = new Holder();
      const first = holder.task("1", VISIT, ["enter"]);
      holder.tasks.set(first.name, first);
      const processor = startByEvents(holder);
      if (!early) holder.say("pulled");
      processor.add(enter);
      holder.say("installed", holder.task("2", ["enter"], VISIT));
      processor.add(exit);
      expect(holder.started).toEqual([
        ["1", enter, [enter]],
        ["2", exit, [enter, exit]],
      ]);
    }
  });

  it.each(["held at once", "held by the first answer"])(
    "starts runs again that had not ended when their page did, of a task that is %s",
    async (when) => {
      const storage = new Kept();
      const before = new Holder();
      const first = before.task("1", VISIT, ["click"]);
      before.tasks.set(first.name, first);
      const left = startByEvents(before);
      left.load(storage);
      for (const one of [enter, click]) left.add(one);
      await before.endAll();
      left.add(exit);
      left.save(storage);
      left.load(storage); // another part of the same page: its runs go on
      expect(before.started).toHaveLength(2);
      left.save(storage);

      const after = new Holder();
      const again = after.task("1", VISIT, ["click"]);
      if (when === "held at once") after.tasks.set(again.name, again);
      const processor = startByEvents(after);
      processor.load(storage);
      if (when !== "held at once") after.say("installed", again);
      after.say("pulled");
      expect(after.started.map(([, { kind, time }, events]) => [kind, time, events.length])).toEqual([
        ["exit", 3, 3],
      ]);
      await after.endAll();
      processor.save(storage);
      const last = new Holder();
      last.tasks.set(again.name, again);
      startByEvents(last).load(storage);
      expect(after.started).toHaveLength(1);
    },
  );

  it("has what was pending on the page before wait for the first answer", () => {
    const storage = new Kept();
    const before = new Holder();
    const first = before.task("1", VISIT);
    before.tasks.set(first.name, first);
    const left = startByEvents(before);
    left.add(enter);
    left.save(storage);
    const after = new Holder();
    const processor = startByEvents(after);
    processor.load(storage);
    processor.add(click);
    after.say("installed", after.task("1", VISIT, ["enter"]));
    processor.add(exit);
    expect(after.started).toEqual([["1", exit, [enter, click, exit]]]);
  });

  it("takes nothing that is no start", () => {
    const starts = [
      null,
      3,
      "x",
      ["shop/a"],
      ["shop/a", "length"],
      ["shop/a", -1],
      ["shop/a", 7],
      [{}, 0],
      {},
    ];
    for (const kept of [null, 3, "x", { length: 1 }, starts]) {
      const storage = new Kept();
      storage.text = JSON.stringify({
        sequences: { events: [enter] },
        pending: [],
        streams: {},
        starts: kept,
      });
      const holder = new Holder();
      const held = holder.task("1", ["click"]);
      holder.tasks.set(held.name, held);
      startByEvents(holder).load(storage);
      expect(holder.started).toEqual([]);
    }
  });
});
