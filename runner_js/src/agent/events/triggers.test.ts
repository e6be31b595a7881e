import { describe, expect, it } from "vitest";
import { completes, drawer, drawnTrigger, type Ids } from "../../testing/triggers";
import { Triggers } from "./triggers";

const event = (id: string, page = "home"): Ids => ({ id, page });

function fires(triggers: Triggers, ...ids: string[]): (readonly string[])[] {
  return ids.map((id) => triggers.next(event(id)));
}

describe("Triggers", () => {
  it("fires with each event that completes a sequence, one event after the other", () => {
    const triggers = new Triggers();
    triggers.add("buy", ["show", "click"]);
    triggers.add("again", ["click", "click"]);
    expect(fires(triggers, "show", "click", "click", "show", "scroll", "click")).toEqual([
      [],
      ["buy"],
      ["again"],
      [],
      [],
      [],
    ]);
  });

  it("takes an id for an event's or its page's, * for one event, ** for any number", () => {
    const triggers = new Triggers();
    triggers.add("one", ["enter", "*", "click"]);
    triggers.add("any", ["enter", "**", "exit"]);
    triggers.add("page", ["item", "item"]);
    const got = [event("enter", "item"), event("scroll", "item"), event("click"), event("exit")];
    expect(got.map((one) => triggers.next(one))).toEqual([[], ["page"], ["one"], ["any"]]);
    // ** goes on waiting, and may stand for no event.
    expect(fires(triggers, "exit", "enter", "exit")).toEqual([["any"], [], ["any"]]);
  });

  it("shares beginnings, and several tasks may have one trigger", () => {
    const triggers = new Triggers();
    for (const name of ["b", "a"]) triggers.add(name, ["x", "y"]);
    triggers.add("short", ["x"]);
    expect(fires(triggers, "x", "y")).toEqual([["short"], ["a", "b"]]);
    expect(triggers.remove("a")).toBe(true);
    expect(triggers.remove("a")).toBe(false);
    expect(fires(triggers, "x", "y")).toEqual([["short"], ["b"]]);
  });

  it("forgets what was pending for a trigger that is removed, and no other", () => {
    const triggers = new Triggers();
    triggers.add("gone", ["x", "y", "z"]);
    triggers.add("kept", ["x", "y"]);
    fires(triggers, "x");
    triggers.remove("gone");
    expect(fires(triggers, "y", "z")).toEqual([["kept"], []]);
    triggers.add("gone", ["y", "z"]);
    fires(triggers, "y");
    triggers.remove("gone");
    expect(fires(triggers, "z")).toEqual([[]]);
  });

  it("goes on from a snapshot, also with other triggers, and takes nothing that is none", () => {
    const add = (triggers: Triggers) => {
      triggers.add("two", ["x", "**", "y"]);
      triggers.add("three", ["x", "*", "y"]);
      return triggers;
    };
    const before = add(new Triggers());
    fires(before, "x", "z");
    const snapshot: unknown = JSON.parse(JSON.stringify(before.snapshot()));
    const after = add(new Triggers());
    after.add("other", ["z"]);
    after.restore(snapshot);
    expect(fires(after, "y")).toEqual([["three", "two"]]);
    for (const wrong of [null, 3, "x", [3], [[]], [["x", "no"]], [[null]], { length: 2 }]) {
      after.restore(wrong);
      expect(after.next(event("y"))).toEqual([]);
    }
  });

  it("refuses what is no trigger", () => {
    const triggers = new Triggers();
    triggers.add("a", ["x"]);
    expect(() => triggers.add("a", ["y"])).toThrow("there already");
    for (const wrong of [[], ["**", "x"], ["x", "**"], [""], ["***"], Array(33).fill("x")])
      expect(() => triggers.add("b", wrong)).toThrow(RangeError);
    expect(triggers.size).toBe(1);
  });

  it("is what a matcher by brute force says, for random triggers and sequences", () => {
    const draw = drawer(18);
    const ids = ["a", "b", "c", "home", "item"];
    for (let round = 0; round < 600; round++) {
      // All is remembered, hardly anything, or nothing.
      const triggers = new Triggers([undefined, 30, 0][round % 3]);
      const sequences = new Map<string, string[]>();
      const events: Ids[] = [];
      for (let at = 0; at < 12; at++) {
        // Triggers come and go in the middle, as tasks do, and pages are loaded anew.
        const what = draw(6);
        if (at < 3 || what === 0) {
          sequences.set(`t${at}`, drawnTrigger(draw, ids, 5));
          triggers.add(`t${at}`, sequences.get(`t${at}`) ?? []);
          events.length = 0;
          triggers.restore([]);
        } else if (what === 1) {
          sequences.delete(`t${at - 3}`);
          triggers.remove(`t${at - 3}`);
        } else if (what === 2) {
          triggers.restore(JSON.parse(JSON.stringify(triggers.snapshot())));
        }
        events.push({ id: ids[draw(4)] ?? "", page: ids[3 + draw(3)] ?? "other" });
        const expected = [...sequences].filter(([, one]) => completes(one, events)).map(([name]) => name);
        expect(triggers.next(events.at(-1) as Ids)).toEqual(expected.sort());
      }
    }
  });
});
