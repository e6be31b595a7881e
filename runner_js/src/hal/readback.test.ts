import { beforeAll, describe, expect, it, vi } from "vitest";
import { Readback } from "./readback";

beforeAll(() => {
  vi.stubGlobal("GPUBufferUsage", { MAP_READ: 1, COPY_DST: 8 });
  vi.stubGlobal("GPUMapMode", { READ: 1 });
});

class FakeBuffer {
  readonly memory: ArrayBuffer;
  constructor(size: number) {
    this.memory = new ArrayBuffer(size);
  }
  mapAsync = () => Promise.resolve();
  getMappedRange = () => this.memory;
  destroy = () => {};
}

function fakeDevice(maxBufferSize: number) {
  const made: FakeBuffer[] = [];
  const device = {
    limits: { maxBufferSize },
    createBuffer: ({ size }: { size: number }) => {
      const buffer = new FakeBuffer(size);
      made.push(buffer);
      return buffer;
    },
  };
  return { device: device as unknown as GPUDevice, made };
}

/** Copies 1, 2, 3... instead of what a GPU would have. */
const encoder = {
  copyBufferToBuffer(source: { value: number }, _: number, to: FakeBuffer, offset: number, bytes: number) {
    new Uint8Array(to.memory, offset, bytes).fill(source.value);
  },
} as unknown as GPUCommandEncoder;

describe("Readback", () => {
  it("puts everything into one buffer, aligned to words", async () => {
    const { device, made } = fakeDevice(1 << 20);
    const sizes = [3, 8, 0, 5];
    const readback = new Readback(device, sizes);
    expect(made.map((buffer) => buffer.memory.byteLength)).toEqual([4 + 8 + 4 + 8]);
    sizes.forEach((_, i) => {
      readback.encodeCopy(encoder, i, { value: i + 1 } as unknown as GPUBuffer);
    });
    await readback.map();
    expect(sizes.map((_, i) => [...readback.bytes(i)])).toEqual([
      [1, 1, 1],
      Array(8).fill(2),
      [],
      Array(5).fill(4),
    ]);
  });

  it("splits where a buffer would grow too large", () => {
    const { device, made } = fakeDevice(16);
    new Readback(device, [8, 8, 4, 16]);
    expect(made.map((buffer) => buffer.memory.byteLength)).toEqual([16, 4, 16]);
  });

  it("makes no buffer for nothing", async () => {
    const { device, made } = fakeDevice(16);
    await new Readback(device, []).map();
    expect(made).toEqual([]);
  });
});
