import { describe, expect, it } from "vitest";
import { Pace, paceOf } from "./pace";

/** How many calls are made ahead behind tokens that came at these times, in ms. */
function ahead(...times: number[]): number {
  const pace = new Pace();
  for (const [place, time] of times.entries()) pace.token(place, time);
  return pace.ahead;
}

const every = (step: number) => Array.from({ length: 20 }, (_, at) => at * step);

describe("calls ahead", () => {
  it("take about as long as a token is under way", () => {
    expect(ahead(...every(100))).toBe(1);
    expect(ahead(...every(2))).toBe(6);
    expect(ahead(...every(0.5))).toBe(24);
    expect(ahead(...every(0))).toBe(32);
  });

  it("is one until it is known how long calls take", () => {
    expect(ahead(0, 0.1, 0.2, 0.3)).toBe(1);
  });

  it("is one of slow calls whose tokens come several at once", () => {
    expect(ahead(0, 0, 200, 200, 400, 400, 600)).toBe(1);
    expect(ahead(0, 0, 0, 0, 0, 500, 500)).toBe(1);
    expect(ahead(...every(0.1), 500, 500, 500, 500)).toBe(1);
  });

  it("go to the GPU together where they are many", () => {
    const together = (step: number) => {
      const pace = new Pace();
      for (const [place, time] of every(step).entries()) pace.token(place, time);
      return pace.together;
    };
    expect([100, 2, 1, 0.6, 0.1].map(together)).toEqual([1, 1, 1, 2, 4]);
  });

  it("holds for the next text", () => {
    const pace = new Pace();
    for (const [place, time] of every(0.1).entries()) pace.token(place, time);
    pace.token(3, 5000);
    expect(pace.ahead).toBe(32);
  });

  it("is known of a model, whoever writes", () => {
    const [model, other] = [{}, {}];
    expect(paceOf(model)).toBe(paceOf(model));
    expect(paceOf(model)).not.toBe(paceOf(other));
  });
});
