import { beforeEach, describe, expect, it } from "vitest";
import type { Buffer, Buffers } from "../hal/buffers";
import type { Commands } from "../hal/commands";
import { TensorCache } from "./tensor_cache";
import { Tensors } from "./tensors";

/** Counts buffers instead of making them; a buffer's content is named. */
class FakeBuffers {
  private last = 0;
  readonly alive = new Map<Buffer, string>();

  allocate = (bytes: number): Buffer => {
    const buffer = { slot: { id: ++this.last }, bytes } as Buffer;
    this.alive.set(buffer, "");
    return buffer;
  };
  free = (buffer: Buffer) => {
    if (!this.alive.delete(buffer)) throw new Error(`freed ${buffer.slot.id} twice`);
  };
  write = (buffer: Buffer, _offset: number, data: Uint8Array) => {
    this.alive.set(buffer, `bytes ${data.join(" ")}`);
  };
}

const TYPE = { dtype: "uint8" as const, shape: [4], encoding: null };
const DATA = Uint8Array.of(1, 2, 3, 4).buffer;

let buffers: FakeBuffers;
let tensors: Tensors;
let cache: TensorCache;

beforeEach(() => {
  buffers = new FakeBuffers();
  const asBuffers = buffers as unknown as Buffers;
  // No room: what is not pinned goes at once.
  cache = new TensorCache(asBuffers, buffers as unknown as Commands, 0);
  tensors = new Tensors(asBuffers, cache);
});

const content = (name: string) => buffers.alive.get(tensors.buffer(name));

describe("Tensors", () => {
  it("share the buffer of a digest between names", () => {
    tensors.upload("a", TYPE, "d", DATA);
    tensors.upload("b", TYPE, "d", null);
    expect(tensors.buffer("a")).toBe(tensors.buffer("b"));
    tensors.free("a");
    expect(content("b")).toBe("bytes 1 2 3 4");
    tensors.free("b");
    expect(buffers.alive.size).toBe(0);
  });

  it("want a buffer of their own before a write, for the tensor and its views only", () => {
    tensors.upload("a", TYPE, "d", DATA);
    tensors.view("v", "a", [2, 2]);
    tensors.upload("other", TYPE, "d", null);
    const copied = tensors.makeWritable("v");
    expect(copied?.source).toBe(tensors.buffer("other"));
    expect(copied?.own).toBe(tensors.buffer("a"));
    expect(tensors.buffer("v")).toBe(tensors.buffer("a"));
    expect(content("other")).toBe("bytes 1 2 3 4");
    const own = tensors.buffer("a");
    expect(tensors.makeWritable("a")).toBeNull();
    expect(tensors.buffer("a")).toBe(own);
    tensors.freePrefix("");
    expect(buffers.alive.size).toBe(0);
  });

  it("are written where they are when they were allocated", () => {
    tensors.allocate("a", TYPE);
    expect(tensors.makeWritable("a")).toBeNull();
  });

  it("keep the buffer while a view has it", () => {
    const buffer = tensors.allocate("a", TYPE);
    tensors.view("v", "a", [4]);
    tensors.free("a");
    expect(tensors.buffer("v")).toBe(buffer);
    expect(buffers.alive.size).toBe(1);
    tensors.free("v");
    expect(buffers.alive.size).toBe(0);
  });

  it("replace a name, also by a view of itself", () => {
    tensors.allocate("a", TYPE);
    tensors.view("a", "a", [2, 2]);
    expect(tensors.typeOf("a")).toEqual({ ...TYPE, shape: [2, 2] });
    tensors.upload("a", TYPE, "d", DATA);
    expect(content("a")).toBe("bytes 1 2 3 4");
    expect(buffers.alive.size).toBe(1);
  });

  it("are freed by prefix, and twice without harm", () => {
    for (const name of ["step1.x", "step1.y", "step2.x"]) tensors.allocate(name, TYPE);
    tensors.freePrefix("step1.");
    tensors.free("step1.x");
    const types = ["step1.x", "step1.y", "step2.x"].map((name) => tensors.typeOf(name));
    expect(types).toEqual([undefined, undefined, TYPE]);
    expect(buffers.alive.size).toBe(1);
  });

  it("say which one is missing or too small", () => {
    tensors.allocate("a", TYPE);
    expect(() => tensors.buffer("x")).toThrow("there is no tensor x on this device");
    expect(() => tensors.view("v", "a", [5])).toThrow("tensor v: uint8[5] does not fit into a, uint8[4]");
  });
});

describe("TensorCache", () => {
  it("adopt what was written elsewhere, pinned until it is released", () => {
    const buffer = buffers.allocate(4);
    cache.adopt("d", buffer);
    expect(cache.has("d")).toBe(true);
    expect(cache.acquire("d")).toBe(buffer);
    cache.release("d");
    expect(cache.has("d")).toBe(true);
    cache.release("d");
    expect(cache.has("d")).toBe(false);
    expect(buffers.alive.size).toBe(0);
  });

  it("do not discard what somebody holds", () => {
    cache.acquireOrUpload("d", DATA);
    cache.discard("d");
    expect(cache.has("d")).toBe(true);
  });
});
