import { beforeAll, describe, expect, it, vi } from "vitest";
import type { Buffer } from "./buffers";
import type { Commands } from "./commands";
import { Readback, Stagings } from "./readback";

beforeAll(() => {
  vi.stubGlobal("GPUBufferUsage", { MAP_READ: 1, COPY_DST: 8 });
  vi.stubGlobal("GPUMapMode", { READ: 1 });
});

class FakeBuffer {
  readonly memory: ArrayBuffer;
  mapped = false;
  destroyed = false;
  constructor(readonly size: number) {
    this.memory = new ArrayBuffer(size);
  }
  async mapAsync() {
    this.mapped = true;
  }
  getMappedRange = () => this.memory;
  get mapState(): GPUBufferMapState {
    return this.mapped ? "mapped" : "unmapped";
  }
  unmap() {
    this.mapped = false;
  }
  destroy() {
    this.destroyed = true;
  }
}

function fakeStagings(maxBufferSize: number, lost: Promise<unknown> = new Promise(() => {})) {
  const made: FakeBuffer[] = [];
  const device = {
    lost,
    limits: { maxBufferSize },
    createBuffer: ({ size }: { size: number }) => {
      const buffer = new FakeBuffer(size);
      made.push(buffer);
      return buffer;
    },
  };
  return { stagings: new Stagings(device as unknown as GPUDevice), made };
}

const source = (value: number, bytes: number) => ({ value, bytes }) as unknown as Buffer;

/** Copies 1, 2, 3... instead of what a GPU would have. */
const commands = {
  copyTo({ value, bytes }: { value: number; bytes: number }, to: FakeBuffer, offset: number) {
    new Uint8Array(to.memory, offset, bytes).fill(value);
  },
} as unknown as Commands;

describe("Readback", () => {
  it("puts everything into one buffer, aligned to words", async () => {
    const { stagings, made } = fakeStagings(1 << 20);
    const sizes = [3, 8, 0, 5];
    const readback = new Readback(stagings, sizes);
    expect(made).toHaveLength(1);
    const padded = [4, 8, 4, 8];
    sizes.forEach((_, i) => {
      readback.record(commands, i, source(i + 1, padded[i] as number));
    });
    await readback.map();
    expect(sizes.map((_, i) => [...readback.bytes(i)])).toEqual([
      [1, 1, 1],
      Array(8).fill(2),
      [],
      Array(5).fill(4),
    ]);
    expect(() => readback.bytes(4)).toThrow("no place 4 to read back to");
  });

  it("splits where a buffer would grow too large", () => {
    const { stagings, made } = fakeStagings(16);
    new Readback(stagings, [8, 8, 4, 16]);
    expect(made).toHaveLength(3);
    expect(made.every((buffer) => buffer.size <= 16)).toBe(true);
  });

  it("makes no buffer for nothing", async () => {
    const { stagings, made } = fakeStagings(16);
    await new Readback(stagings, []).map();
    expect(made).toEqual([]);
  });

  it("tells of a failed map after word of the device's loss", async () => {
    const told: string[] = [];
    let lose = (_: unknown) => {};
    const lost = new Promise((resolve) => {
      lose = resolve;
    });
    const { stagings, made } = fakeStagings(1 << 20, lost);
    void lost.then(() => told.push("lost"));
    const readback = new Readback(stagings, [8]);
    vi.spyOn(made[0] as FakeBuffer, "mapAsync").mockRejectedValue(new Error("Buffer was unmapped"));
    const failed = readback.map().catch(() => told.push("map failed"));
    setTimeout(() => lose({ reason: "destroyed" }), 20);
    await failed;
    expect(told).toEqual(["lost", "map failed"]);
  });

  it("gives its buffers back unmapped, once", async () => {
    const { stagings, made } = fakeStagings(1 << 20);
    const readback = new Readback(stagings, [1000]);
    await readback.map();
    expect(made[0]?.mapped).toBe(true);
    readback.release();
    readback.release();
    expect(made[0]?.mapped).toBe(false);
    const buffers = [stagings.take(1000), stagings.take(1000)];
    expect(buffers[0]).toBe(made[0]);
    expect(buffers[1]).not.toBe(made[0]);
  });
});

describe("Stagings", () => {
  const used = async (stagings: Stagings, bytes: number) => {
    const buffer = stagings.take(bytes);
    await buffer.mapAsync(GPUMapMode.READ);
    return buffer;
  };

  it("use a buffer of the same size class again", async () => {
    const { stagings, made } = fakeStagings(1 << 20);
    const first = await used(stagings, 1000);
    stagings.give(first);
    expect(stagings.take(1020)).toBe(first);
    expect(stagings.take(5000)).not.toBe(first);
    expect(made).toHaveLength(2);
  });

  it("destroy one that was never mapped: it may never have been made", () => {
    const { stagings, made } = fakeStagings(1 << 20);
    stagings.give(stagings.take(1000));
    expect(made[0]?.destroyed).toBe(true);
    expect(stagings.take(1000)).not.toBe(made[0]);
  });

  it("keep the four youngest", async () => {
    const { stagings, made } = fakeStagings(1 << 20);
    for (const buffer of await Promise.all(Array.from({ length: 6 }, () => used(stagings, 100)))) {
      stagings.give(buffer);
    }
    expect(made.map((buffer) => buffer.destroyed)).toEqual([true, true, false, false, false, false]);
  });
});
