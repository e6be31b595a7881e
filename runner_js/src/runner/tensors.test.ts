import { beforeEach, describe, expect, it } from "vitest";
import type { Buffers } from "../tvm/buffers";
import { PristineBuffers } from "./pristine";
import { Tensors } from "./tensors";

/** Counts buffers instead of making them; a buffer's content is named. */
class FakeBuffers {
  private last = 0;
  readonly alive = new Map<number, string>();

  private make(content: string): number {
    this.alive.set(++this.last, content);
    return this.last;
  }
  upload = (data: ArrayBuffer) => this.make(`bytes ${new Uint8Array(data).join(" ")}`);
  allocateFilled = () => this.make("ff");
  copyOf = (source: number) => this.make(`copy of ${this.alive.get(source)}`);
  free = (pointer: number) => {
    if (!this.alive.delete(pointer)) throw new Error(`freed ${pointer} twice`);
  };
}

const TYPE = { dtype: "uint8" as const, shape: [4] };
const DATA = Uint8Array.of(1, 2, 3, 4).buffer;

let buffers: FakeBuffers;
let tensors: Tensors;

beforeEach(() => {
  buffers = new FakeBuffers();
  const asBuffers = buffers as unknown as Buffers;
  // No room: what is not pinned goes at once.
  tensors = new Tensors(asBuffers, new PristineBuffers(asBuffers, 0));
});

const content = (name: string) => buffers.alive.get(tensors.buffer(name));

describe("Tensors", () => {
  it("shares the buffer of a digest between names", () => {
    tensors.upload("a", TYPE, "d", DATA);
    tensors.upload("b", TYPE, "d", null);
    expect(tensors.buffer("a")).toBe(tensors.buffer("b"));
    tensors.free("a");
    expect(content("b")).toBe("bytes 1 2 3 4");
    tensors.free("b");
    expect(buffers.alive.size).toBe(0);
  });

  it("copies before a write, for the tensor and its views only", () => {
    tensors.upload("a", TYPE, "d", DATA);
    tensors.view("v", "a", [2, 2]);
    tensors.upload("other", TYPE, "d", null);
    tensors.makeWritable("v");
    expect(content("a")).toBe("copy of bytes 1 2 3 4");
    expect(tensors.buffer("v")).toBe(tensors.buffer("a"));
    expect(content("other")).toBe("bytes 1 2 3 4");
    const own = tensors.buffer("a");
    tensors.makeWritable("a");
    expect(tensors.buffer("a")).toBe(own);
    tensors.freePrefix("");
    expect(buffers.alive.size).toBe(0);
  });

  it("keeps the buffer while a view has it", () => {
    tensors.allocate("a", TYPE);
    tensors.view("v", "a", [4]);
    tensors.free("a");
    expect(content("v")).toBe("ff");
    tensors.free("v");
    expect(buffers.alive.size).toBe(0);
  });

  it("replaces a name, also by a view of itself", () => {
    tensors.allocate("a", TYPE);
    tensors.view("a", "a", [2, 2]);
    expect(tensors.types().get("a")).toEqual({ dtype: "uint8", shape: [2, 2] });
    tensors.upload("a", TYPE, "d", DATA);
    expect(content("a")).toBe("bytes 1 2 3 4");
    expect(buffers.alive.size).toBe(1);
  });

  it("frees by prefix", () => {
    for (const name of ["step1.x", "step1.y", "step2.x"]) tensors.allocate(name, TYPE);
    tensors.freePrefix("step1.");
    expect([...tensors.types().keys()]).toEqual(["step2.x"]);
  });

  it("says which tensor is missing or too small", () => {
    tensors.allocate("a", TYPE);
    expect(() => tensors.buffer("x")).toThrow("there is no tensor x on this device");
    expect(() => tensors.view("v", "a", [5])).toThrow("tensor v: uint8[5] does not fit into a, uint8[4]");
  });
});
