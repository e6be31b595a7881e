import { describe, expect, it } from "vitest";
import { loadAhead } from "./ahead";

describe("loadAhead", () => {
  it("starts a few, then one for each that is taken", async () => {
    const started: number[] = [];
    const next = loadAhead([1, 2, 3, 4], async (item) => started.push(item) * 10, 2);
    expect(started).toEqual([1, 2]);
    expect(await next()).toBe(10);
    expect(started).toEqual([1, 2, 3]);
    expect([await next(), await next(), await next()]).toEqual([20, 30, 40]);
    await expect(next()).rejects.toThrow("nothing is left");
  });

  it("reports a failure where it is asked for, not before", async () => {
    const next = loadAhead([1, 2], (item) =>
      item === 2 ? Promise.reject(new Error("no 2")) : Promise.resolve(item),
    );
    await new Promise((resolve) => setTimeout(resolve));
    expect(await next()).toBe(1);
    await expect(next()).rejects.toThrow("no 2");
  });
});
