import { expect, it } from "vitest";
import { openFrom, openText, placeFrom, placeText } from "./address";
import { everything, type Foldable } from "./outline";

it("looks at the same place in a window of another size", () => {
  const text = placeText({ x: -200, y: 40, scale: 0.5 }, { width: 600, height: 400 });
  expect(text).toBe("1000,320,0.5");
  expect(placeFrom(text, { width: 600, height: 400 })).toEqual({ x: -200, y: 40, scale: 0.5 });
  expect(placeFrom(text, { width: 300, height: 200 })).toEqual({ x: -350, y: -60, scale: 0.5 });
});

it("takes nothing that is no place", () => {
  const pane = { width: 600, height: 400 };
  for (const text of ["", "1,2", "1,2,0", "1,2,x", "1,2,9e9", "Infinity,2,1", "1,2,1,4", "fit"])
    expect(placeFrom(text, pane), text).toBeNull();
});

function folding(nodes: number): Foldable {
  const block = (at: number) => ({ id: `g0/${at}`, label: `layers.${at}`, nodes: [`n${at}`] });
  const groups = [{ id: "g0", label: "layers 0 to 2", blocks: [0, 1, 2].map(block) }];
  const graph = { nodes: Array.from({ length: nodes }), values: [], inputs: [], outputs: [] };
  return { graph: graph as unknown as Foldable["graph"], names: new Map(), groups };
}

it("says which blocks are open, and nothing where they are as at first", () => {
  const deep = folding(1000);
  expect(openText(new Set(), deep)).toBeNull();
  expect(openText(new Set(["g0/2", "g0", "g0/1"]), deep)).toBe("g0,g0/1,g0/2");
  expect(openText(new Set(everything(deep.groups)), deep)).toBe("all");
  const small = folding(20);
  expect(openText(new Set(everything(small.groups)), small)).toBeNull();
  expect(openText(new Set(), small)).toBe("none");
  for (const open of [new Set<string>(), new Set(["g0", "g0/1"]), new Set(everything(deep.groups))])
    for (const found of [deep, small]) expect(openFrom(openText(open, found), found)).toEqual(open);
  expect(openFrom("g0,g7,<b>", deep)).toEqual(new Set(["g0"]));
});
