import { expect, it } from "vitest";
import { printed } from "../../../runner_js/src/program/expressions";
import type { KernelBundle } from "../api/types";
import { expressionOf } from "./expression-text";
import { withValue } from "./json-edit";
import { launchFields, overLimits, sizeConflict, withWorkgroupSize } from "./launch-edit";

it("reads the expressions that it writes", () => {
  for (const text of [
    "17",
    "n",
    "-3",
    "ceildiv(n, 64) * 12",
    "n * (m + 1) - 2",
    "min(a, max(b, 3)) - (c - 1)",
  ])
    expect(printed(expressionOf(text)).replace(/^\((.*)\)$/, "$1")).toBe(text);
  expect(expressionOf("1 - 2 - 3")).toEqual(["sub", ["sub", 1, 2], 3]);
  for (const text of [
    "",
    "1 +",
    "ceildiv(1)",
    "f(1, 2)",
    "1.5",
    "(1",
    "2 3",
    "1 / 2",
    "a b",
    ")",
    "99999999999999999999",
  ])
    expect(() => expressionOf(text), text).toThrow();
  for (const text of ["1e99", "n * 1.5", "2e+3 - n"])
    expect(() => expressionOf(text), text).toThrow(/^[\d.e+]+ is no whole number: a size is one$/);
  expect(expressionOf("a1e9 - 1")).toEqual(["sub", "a1e9", 1]);
});

it("replaces one value of a text and leaves the rest as it is", () => {
  const text = '{\n "a": [1, {"b\\"}": "x]", "c": 1.0}],\n "d": {"c": [ ]}, "e":null }';
  expect(withValue(text, ["a", 1, "c"], 2)).toBe(text.replace("1.0", "2"));
  expect(withValue(text, ["a", 1, 'b"}'], ["add", "n", 1])).toBe(text.replace('"x]"', '["add","n",1]'));
  expect(withValue(text, ["d", "c"], {})).toBe(text.replace("[ ]", "{}"));
  expect(withValue(text, ["e"], 0)).toBe(text.replace("null", "0"));
  expect(() => withValue(text, ["a", 2], 0)).toThrow("there is no a.2");
  expect(() => withValue("{", [], 0)).toThrow();
});

const wgsl = "@compute @workgroup_size(64)\nfn first() {}\n@workgroup_size(8, 8) @compute fn second() {}\n";
const bundle = {
  arguments: [],
  variants: [
    {
      name: "256",
      requires: { features: [], limits: {} },
      entry_points: [
        { name: "first", file: "k.wgsl", workgroup_size: [64, 1, 1], bindings: [] },
        { name: "second", file: "k.wgsl", workgroup_size: [8, 8, 1], bindings: [] },
      ],
      launches: [
        {
          entry_point: "first",
          operands: [],
          grid: [["ceildiv", "n", 64], 1, 1],
          uniforms: [
            { name: "n", dtype: "uint32", value: "n" },
            { name: "eps", dtype: "float32", value: 1 },
          ],
        },
      ],
      temporaries: [],
    },
  ],
} satisfies KernelBundle;
const document = JSON.stringify(bundle, null, 1);

function edited(key: string, value: string) {
  const field = launchFields(document, "256", { "k.wgsl": wgsl })
    .flatMap(({ fields }) => fields)
    .find((one) => one.key === key);
  const made = field?.change(value);
  return { variant: (JSON.parse(made?.document ?? "null") as KernelBundle).variants[0], file: made?.file };
}

it("edits grid and uniforms", () => {
  expect(edited("grid 0 0", "ceildiv(n, 128)").variant?.launches[0]?.grid).toEqual([
    ["ceildiv", "n", 128],
    1,
    1,
  ]);
  expect(edited("grid 0 2", "3").variant?.launches[0]?.grid[2]).toBe(3);
  expect(edited("uniform 0 0", "n + 1").variant?.launches[0]?.uniforms?.[0]?.value).toEqual(["add", "n", 1]);
  expect(edited("uniform 0 1", "1e-5").variant?.launches[0]?.uniforms?.[1]?.value).toBe(1e-5);
  expect(() => edited("uniform 0 0", "1.5")).toThrow();
});

it("edits a workgroup's size in the document and in the WGSL at once", () => {
  const { variant, file } = edited("size 1 x", "16");
  expect(variant?.entry_points.map(({ workgroup_size }) => workgroup_size)).toEqual([
    [64, 1, 1],
    [16, 8, 1],
  ]);
  expect(file).toEqual({ name: "k.wgsl", text: wgsl.replace("(8, 8)", "(16, 8, 1)") });
  expect(variant && sizeConflict(variant, { "k.wgsl": file?.text ?? "" })).toBe("");
  expect(variant && sizeConflict(variant, { "k.wgsl": wgsl })).toBe(
    "k.wgsl says @workgroup_size(8, 8), the document 16, 8, 1",
  );
  expect(() => edited("size 0 x", "0")).toThrow("0 is no whole number from 1 on");
  // A size that is an override or a constant is the text's own business.
  expect(withWorkgroupSize("@compute @workgroup_size(SIZE) fn first() {}", "first", [1, 1, 1])).toBeNull();
});

it("tells sizes that a device cannot run while they are typed", () => {
  const variant = (size: number[], grid: KernelBundle["variants"][0]["launches"][0]["grid"]) =>
    ({
      entry_points: [{ name: "main", workgroup_size: size }],
      launches: [{ entry_point: "main", grid }],
    }) as unknown as KernelBundle["variants"][0];
  const one = {
    name: "One",
    limits: { maxComputeInvocationsPerWorkgroup: 1024, maxComputeWorkgroupSizeX: 1024 },
  };
  const two = { name: "Two", limits: {} };
  expect(overLimits(variant([256, 1, 1], [65_535, 1, 1]), [one, two])).toEqual([]);
  expect(overLimits(variant([1000, 1, 1], [1, 1, 1]), [one])).toEqual([]);
  expect(overLimits(variant([1000, 1, 1], [1, 1, 1]), [one, two])).toEqual([
    "main has 1,000 invocations a workgroup: Two can do 256 (maxComputeInvocationsPerWorkgroup)",
    "main has workgroups of 1,000 along x: Two can do 256 (maxComputeWorkgroupSizeX)",
  ]);
  // What depends on the model's sizes is known when it runs.
  expect(overLimits(variant([1], ["n", 70_000, 1]), [])).toEqual([
    "main has 70,000 workgroups along y: not every device can do more than 65,535 (maxComputeWorkgroupsPerDimension)",
  ]);
});
