import { describe, expect, it } from "vitest";
import { DeviceFailure } from "../hal/errors";
import type { Command, TensorType } from "../protocol/messages";
import { planDownloads } from "./command_plan";

const call: Command = { op: "call", library: "l", kernel: "k", arguments: ["a", "b"] };
const allocate = (tensor: string, ...shape: number[]): Command => ({
  op: "allocate",
  tensor,
  dtype: "float16",
  shape,
});
const download = (tensor: string): Command => ({ op: "download", tensor });
const free = (...tensors: string[]): Command => ({ op: "free", tensors });
const nothing = () => undefined;

describe("planDownloads", () => {
  it("gives the bytes of each download, as the tensor is at that point", () => {
    const commands: Command[] = [
      { op: "load", library: "l", kernels: [] },
      allocate("a", 3),
      download("a"),
      { op: "upload", tensor: "a", digest: "", dtype: "int8", shape: [2, 5] },
      download("a"),
      { op: "view", tensor: "b", of: "a", shape: [4] },
      download("b"),
      call,
      { op: "unload", library: "l" },
    ];
    expect(planDownloads(commands, nothing)).toEqual([6, 10, 4]);
  });

  it("knows tensors of earlier calls", () => {
    const weight: TensorType = { dtype: "float32", shape: [2, 2] };
    const present = (name: string) => (name === "weight" ? weight : undefined);
    expect(planDownloads([download("weight"), free("weight")], present)).toEqual([16]);
  });

  it("keeps a view when what it was made of is freed", () => {
    const view: Command = { op: "view", tensor: "v", of: "a", shape: [1] };
    expect(planDownloads([allocate("a", 3), view, free("a"), download("v")], nothing)).toEqual([2]);
  });

  it("passes over what is freed and not there, also a second time", () => {
    const commands: Command[] = [free("x", "y"), allocate("x", 1), free("x"), free("x")];
    expect(planDownloads(commands, nothing)).toEqual([]);
  });

  it("knows what is allocated again after a prefix was freed", () => {
    const commands: Command[] = [
      allocate("s.x", 1),
      { op: "free_prefix", prefix: "s." },
      allocate("s.x", 2),
      download("s.x"),
    ];
    expect(planDownloads(commands, nothing)).toEqual([4]);
  });

  it.each<[string, Command[]]>([
    ["download", [download("x")]],
    ["download", [allocate("x", 1), free("x"), download("x")]],
    ["download", [allocate("x", 1), { op: "free_prefix", prefix: "" }, download("x")]],
    ["view", [{ op: "view", tensor: "y", of: "x", shape: [1] }]],
    ["copy", [allocate("b", 1), { op: "copy", tensor: "x", of: "b" }]],
    ["call", [allocate("b", 1), { op: "call", library: "l", kernel: "k", arguments: ["b", "x"] }]],
  ])("refuses to %s a tensor that is not there", (op, commands) => {
    let cause: unknown;
    try {
      planDownloads(commands, nothing);
    } catch (thrown) {
      cause = thrown;
    }
    const command = commands.length - 1;
    expect(cause).toBeInstanceOf(DeviceFailure);
    expect((cause as DeviceFailure).report).toEqual({
      kind: "protocol",
      message: `there is no tensor x on this device (command ${command}, ${op})`,
      command,
    });
  });

  it("refuses a tensor of an earlier call whose prefix was freed", () => {
    const commands: Command[] = [{ op: "free_prefix", prefix: "we" }, download("weight")];
    const weight: TensorType = { dtype: "float32", shape: [1] };
    expect(() => planDownloads(commands, () => weight)).toThrow("there is no tensor weight");
  });
});
