import { expect, it } from "vitest";
import { launchFacts } from "./launch";

const dispatch = (rows: number) => ({
  shapes: [[rows], [rows]],
  launches: [{ entry_point: "k", arguments: [], dispatch: [rows, 1, 1], workgroup_size: [64, 1, 1] }],
  temporaries: [],
});
const bundle = {
  arguments: [{ role: "input" }, { role: "output" }],
  entry_points: [
    {
      name: "k",
      file: "k.wgsl",
      workgroup_size: [64, 1, 1],
      bindings: [
        { binding: 0, access: "read_write", name: "x_ptr", type: "array<f32>", argument: 1 },
        { binding: 1, access: "uniform", name: "podArgs", type: "PODArgs" },
      ],
    },
  ],
  dispatches: [dispatch(15), dispatch(16)],
  requires: { features: ["shader-f16"], limits: { maxBufferSize: 1024 } },
};

it("reads bindings, workgroup size and requirements", () => {
  const facts = launchFacts(bundle);
  expect(facts.entryPoints[0]).toMatchObject({ name: "k", file: "k.wgsl", workgroupSize: "64 × 1 × 1" });
  expect(facts.entryPoints[0]?.bindings.map(({ access, holds }) => [access, holds])).toEqual([
    ["read_write", "output 0"],
    ["uniform", ""],
  ]);
  expect(facts.features).toEqual(["shader-f16"]);
  expect(facts.limits).toEqual([{ name: "maxBufferSize", least: 1024 }]);
});

it("picks the launches of a node's shapes", () => {
  expect(launchFacts(bundle, [[16], [16]])).toMatchObject({
    ofShapes: true,
    launches: [{ workgroups: "16 × 1 × 1" }],
  });
  expect(launchFacts(bundle, [[7], [7]]).launches).toHaveLength(2);
});

it.each([
  null,
  undefined,
  7,
  "text",
  [],
  {},
  { entry_points: 3, requires: [] },
  { entry_points: [null], dispatches: [1] },
])("survives %j", (odd) => expect(() => launchFacts(odd)).not.toThrow());
