import { describe, expect, it } from "vitest";
import { Lru } from "./lru";

function lruOf(capacity: number) {
  const evicted: string[] = [];
  return { lru: new Lru<number>(capacity, (_, key) => evicted.push(key)), evicted };
}

describe("Lru", () => {
  it("evicts the least recently used when bytes run out", () => {
    const { lru, evicted } = lruOf(10);
    lru.set("a", 1, 4);
    lru.set("b", 2, 4);
    expect(lru.get("a")).toBe(1);
    lru.set("c", 3, 4);
    expect(evicted).toEqual(["b"]);
    expect(lru.get("b")).toBeUndefined();
    expect(lru.bytes).toBe(8);
  });

  it("never evicts what is pinned", () => {
    const { lru, evicted } = lruOf(8);
    lru.set("a", 1, 4);
    lru.pin("a");
    lru.pin("a");
    lru.set("b", 2, 4);
    lru.set("c", 3, 8);
    lru.pin("c");
    expect(evicted).toEqual(["b"]);
    expect(lru.bytes).toBe(12);
    lru.unpin("a");
    expect(lru.has("a")).toBe(true);
    lru.unpin("a");
    expect(evicted).toEqual(["b", "a"]);
    expect(() => lru.unpin("a")).toThrow("not pinned");
  });

  it("keeps a value larger than everything until the next comes", () => {
    const { lru, evicted } = lruOf(4);
    lru.set("big", 1, 100);
    expect(lru.get("big")).toBe(1);
    lru.set("next", 2, 1);
    expect(evicted).toEqual(["big"]);
  });

  it("discards at once, unless pinned", () => {
    const { lru, evicted } = lruOf(100);
    lru.set("a", 1, 4);
    lru.pin("a");
    lru.discard("a");
    expect(evicted).toEqual([]);
    lru.unpin("a");
    lru.discard("a");
    lru.discard("unknown");
    expect(evicted).toEqual(["a"]);
    expect(lru.bytes).toBe(0);
  });

  it("refuses to lose a value by setting another", () => {
    const { lru } = lruOf(10);
    lru.set("a", 1, 1);
    expect(() => lru.set("a", 2, 1)).toThrow("already");
  });
});
