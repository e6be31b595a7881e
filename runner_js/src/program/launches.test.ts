import { expect, it } from "vitest";
import { evaluateLaunches, storageBindings, uniformOf } from "./launches";

it("orders what operands are bound to by number, without the uniform", () => {
  const bindings = [
    { binding: 5, access: "read" as const },
    { binding: 0, access: "uniform" as const },
    { binding: 2, access: "read_write" as const },
  ];
  expect(storageBindings({ bindings }).map(({ binding }) => binding)).toEqual([2, 5]);
});

it("holds the uniform's numbers in order and as their dtypes say", () => {
  const bytes = uniformOf(
    [
      { name: "a", dtype: "int32", value: -7 },
      { name: "b", dtype: "float32", value: 1.5 },
      { name: "c", dtype: "uint32", value: ["mul", "n", 1_000_000_000] },
      { name: "d", dtype: "float32", value: ["sub", 1, "n"] },
    ],
    { n: 4 },
  );
  const view = new DataView(bytes.buffer);
  expect(view.byteLength).toBe(16);
  expect(view.getInt32(0, true)).toBe(-7);
  expect(view.getFloat32(4, true)).toBe(1.5);
  expect(view.getUint32(8, true)).toBe(4_000_000_000);
  expect(view.getFloat32(12, true)).toBe(-3);
});

it.each([
  ["uniform u: n * 5 is 5000000000 where n = 1000000000, and must be at most 4294967295", "uint32"],
  ["uniform u: n * 5 is 5000000000 where n = 1000000000, and must be at most 2147483647", "int32"],
] as const)("says that %s", (words, dtype) => {
  const uniforms = [{ name: "u", dtype, value: ["mul", "n", 5] }];
  expect(() => uniformOf(uniforms, { n: 1e9 })).toThrow(words);
});

it("evaluates grids and temporaries for the sizes of a call", () => {
  const launch = {
    entry_point: "k",
    operands: [],
    uniforms: [],
    grid: [["ceildiv", "n", 64], 2, ["max", 1, ["floordiv", "n", 1000]]],
  };
  const variant = { temporaries: [["mul", "n", 4]], launches: [launch] };
  expect(evaluateLaunches(variant, { n: 5000 })).toEqual({
    temporaries: [20_000],
    launches: [{ grid: [79, 2, 5], uniform: null }],
  });
  expect(() =>
    evaluateLaunches({ ...variant, launches: [{ ...launch, grid: [1, ["sub", "n", 3], 1] }] }, { n: 1 }),
  ).toThrow("launches[0].grid[1]: n - 3 is -2 where n = 1, and must be at least 0");
  expect(() => evaluateLaunches({ temporaries: ["m"], launches: [] }, { n: 1 })).toThrow(
    "temporaries[0]: there is no symbol m here: there are n",
  );
});
