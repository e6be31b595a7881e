import { describe, expect, it } from "vitest";
import type { Command } from "../protocol/messages";
import { planDownloads } from "./command_plan";

const call: Command = { op: "call", kernel: "k", arguments: ["a", "b"], launches: [], temporaries: [] };
const allocate = (tensor: string, ...shape: number[]): Command => ({
  op: "allocate",
  tensor,
  dtype: "float16",
  shape,
});
const download = (tensor: string): Command => ({ op: "download", tensor });

describe("planDownloads", () => {
  it("gives the bytes of each download, as the tensor is at that point", () => {
    const commands: Command[] = [
      allocate("a", 3),
      download("a"),
      { op: "upload", tensor: "a", digest: "", dtype: "int8", shape: [2, 5] },
      download("a"),
      { op: "view", tensor: "b", of: "a", shape: [4] },
      download("b"),
      call,
    ];
    expect(planDownloads(commands, new Map())).toEqual([6, 10, 4]);
  });

  it("knows tensors of earlier calls and leaves their list alone", () => {
    const types = new Map([["weight", { dtype: "float32" as const, shape: [2, 2] }]]);
    expect(planDownloads([download("weight"), { op: "free", tensor: "weight" }], types)).toEqual([16]);
    expect([...types.keys()]).toEqual(["weight"]);
  });

  it("keeps a view when what it was made of is freed", () => {
    const view: Command = { op: "view", tensor: "v", of: "a", shape: [1] };
    expect(
      planDownloads([allocate("a", 3), view, { op: "free", tensor: "a" }, download("v")], new Map()),
    ).toEqual([2]);
  });

  it.each<[string, Command[]]>([
    ["download", [download("x")]],
    ["download", [allocate("x", 1), { op: "free", tensor: "x" }, download("x")]],
    ["download", [allocate("x", 1), { op: "free_prefix", prefix: "" }, download("x")]],
    ["view", [{ op: "view", tensor: "y", of: "x", shape: [1] }]],
    ["free", [{ op: "free", tensor: "x" }]],
    ["call", [allocate("b", 1), { ...call, arguments: ["b", "x"] }]],
  ])("refuses to %s a tensor that is not there", (op, commands) => {
    expect(() => planDownloads(commands, new Map())).toThrow(`(${op}): there is no tensor x on this device`);
  });
});
