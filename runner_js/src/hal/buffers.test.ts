import { beforeEach, describe, expect, it, vi } from "vitest";
import type { ErrorReport } from "../protocol/messages";
import { Buffers } from "./buffers";
import { DeviceFailure } from "./errors";

vi.stubGlobal("GPUBufferUsage", { STORAGE: 128, COPY_SRC: 4, COPY_DST: 8 });
vi.stubGlobal("GPUValidationError", class {});
vi.stubGlobal("GPUOutOfMemoryError", class {});

interface FakeBuffer {
  size: number;
  destroyed: boolean;
  destroy(): void;
}

let made: FakeBuffer[];
let scopes: number;
/** What the next buffer's scopes say. */
let error: { message: string } | null;
let buffers: Buffers;

beforeEach(() => {
  made = [];
  scopes = 0;
  error = null;
  const device = {
    limits: { maxBufferSize: 1 << 30 },
    pushErrorScope: () => scopes++,
    popErrorScope: () => Promise.resolve(--scopes === 2 ? error : null),
    createBuffer: ({ size }: { size: number }) => {
      const buffer: FakeBuffer = {
        size,
        destroyed: false,
        destroy() {
          this.destroyed = true;
        },
      };
      made.push(buffer);
      return buffer;
    },
  };
  buffers = new Buffers(device as unknown as GPUDevice);
});

/** Past the promises of errors. */
const settled = () => new Promise((resolve) => setTimeout(resolve));

async function freed(...bytes: number[]): Promise<void> {
  for (const buffer of bytes.map((size) => buffers.allocate(size))) buffers.free(buffer);
  await settled();
}

describe("Buffers", () => {
  it("bind whole words and make size classes", () => {
    const sizes = [0, 3, 257, 1000, 70_000].map((bytes) => {
      const { bytes: bound, gpu } = buffers.allocate(bytes);
      return [bound, gpu.size];
    });
    expect(sizes).toEqual([
      [4, 256],
      [4, 256],
      [260, 288],
      [1000, 1024],
      [70_000, 73_728],
    ]);
    expect(scopes).toBe(0);
  });

  it("are used again for the same class, under another id", async () => {
    const first = buffers.allocate(1000);
    buffers.free(first);
    await settled();
    const second = buffers.allocate(1020);
    expect(second.gpu).toBe(first.gpu);
    expect(second.bytes).toBe(1020);
    expect(buffers.allocate(1020).gpu).not.toBe(first.gpu);
    expect(made).toHaveLength(2);
  });

  it("are not used again for another class", async () => {
    await freed(1000);
    buffers.allocate(1025);
    buffers.allocate(500);
    expect(made).toHaveLength(3);
  });

  it("count what is live and what is idle", async () => {
    const [first] = [buffers.allocate(1000), buffers.allocate(300)];
    expect(buffers.statistics).toEqual({ live: 2, liveBytes: 1024 + 320, idle: 0, idleBytes: 0 });
    buffers.free(first);
    await settled();
    expect(buffers.statistics).toEqual({ live: 1, liveBytes: 320, idle: 1, idleBytes: 1024 });
    buffers.allocate(1024);
    expect(buffers.statistics).toEqual({ live: 2, liveBytes: 1024 + 320, idle: 0, idleBytes: 0 });
  });

  it("are trimmed from the largest on", async () => {
    await freed(1024, 1024, 4096);
    buffers.trim(2048);
    expect(buffers.statistics).toMatchObject({ idle: 2, idleBytes: 2048 });
    expect(made.map(({ size, destroyed }) => [size, destroyed])).toEqual([
      [1024, false],
      [1024, false],
      [4096, true],
    ]);
    buffers.trim(0);
    expect(buffers.statistics).toMatchObject({ idle: 0, idleBytes: 0 });
    expect(made.every(({ destroyed }) => destroyed)).toBe(true);
  });

  it("keep what is worth keeping", async () => {
    await freed(96 << 20, 96 << 20, 96 << 20);
    buffers.trim();
    expect(buffers.statistics).toMatchObject({ idle: 2, idleBytes: 192 << 20 });
  });

  it("refuse what is larger than the device allows", () => {
    let report: ErrorReport | null = null;
    try {
      buffers.allocate(1.5 * 2 ** 30);
    } catch (cause) {
      if (cause instanceof DeviceFailure) report = cause.report;
    }
    expect(report).toEqual({
      kind: "out-of-memory",
      message: "needs a buffer of 1.6 GB, this device allows maxBufferSize 1.1 GB",
    });
    expect(made).toEqual([]);
    expect(buffers.statistics.live).toBe(0);
  });

  it("go up to all that the device allows", () => {
    expect(buffers.allocate(1 << 30).gpu.size).toBe(1 << 30);
    expect(buffers.allocate((1 << 30) - 4).gpu.size).toBe(1 << 30);
  });

  it("tell the error of making one, which is not used again", async () => {
    error = { message: "no memory left" };
    const buffer = buffers.allocate(1000);
    error = null;
    expect(await buffer.error).toMatchObject({ message: "GPU internal error: no memory left" });
    buffers.free(buffer);
    await settled();
    expect(made[0]?.destroyed).toBe(true);
    expect(buffers.statistics).toEqual({ live: 0, liveBytes: 0, idle: 0, idleBytes: 0 });
  });

  it("have no error where they were made before", async () => {
    await freed(1000);
    expect(buffers.allocate(1000).error).toBeNull();
  });
});
