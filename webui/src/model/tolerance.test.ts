import { expect, it } from "vitest";
import { excess } from "../../../runner_js/kit/tolerance";

it("measures a difference by the element's own bound, else by the tolerance", () => {
  const tolerance = { absolute: 0.25, relative: 0.5 };
  expect(excess({ expected: 2, got: 5 }, tolerance)).toEqual({ difference: 3, allowed: 1.25, times: 2.4 });
  expect(excess({ expected: 2, got: 5, bound: 2 }, tolerance).times).toBe(1.5);
  expect(excess({ expected: 2, got: 5, bound: "Infinity" }, tolerance).times).toBe(0);
  expect(excess({ expected: 2, got: 5, bound: 0 }, undefined).times).toBe(Number.POSITIVE_INFINITY);
});

it("says nothing of what cannot be known", () => {
  const nothing = { difference: null, allowed: null, times: null };
  expect(excess({ expected: "NaN", got: 1 }, { absolute: 1, relative: 0 })).toEqual(nothing);
  expect(excess({ expected: 2, got: 5 }, undefined)).toEqual({ ...nothing, difference: 3 });
  expect(excess({ expected: 2, got: "NaN" }, { absolute: 1, relative: 0 })).toEqual({
    ...nothing,
    allowed: 1,
  });
});
