import { describe, expect, it } from "vitest";
import { compared, shadeOf } from "./elements";
import { device, floats } from "./fixture";
import { sameDevice } from "./same-device";
import {
  blocksOf,
  flatOf,
  indexOf,
  kept,
  leadingOf,
  pixelsOf,
  planeOf,
  planeStart,
  readTensors,
  sampled,
  tensorOf,
  whole,
  zoomed,
} from "./tensor";

const allowed = { absolute: 0.25, relative: 0 };

describe("compared", () => {
  it("tells of each element how many times its bound it is off", () => {
    const found = compared(
      floats([3], (flat) => [1, 2, Number.NaN][flat] ?? 0),
      floats([3], () => 1),
      { ...allowed, bound: new Float32Array([0.5, 0.5, 0.5]) },
    );
    expect([...found.times]).toEqual([0, 2, Infinity]);
    expect(found.wrong).toBe(2);
    expect([...found.times].map(shadeOf)).toEqual([0, 1, 4]);
    expect([...found.bound]).toEqual([0.5, 0.5, 0.5]);
  });
});

describe("tensors", () => {
  it("come out of a safetensors file", () => {
    const header = new TextEncoder().encode(
      JSON.stringify({ __metadata__: {}, "0": { dtype: "F16", shape: [2], data_offsets: [0, 4] } }),
    );
    const file = new Uint8Array(8 + header.length + 4);
    new DataView(file.buffer).setBigUint64(0, BigInt(header.length), true);
    file.set(header, 8);
    file.set([0, 0x3c, 0, 0xc0], 8 + header.length);
    const tensor = readTensors(file.buffer).get("0");
    expect(tensor?.shape).toEqual([2]);
    expect(tensor?.dtype).toBe("float16");
    expect([...(tensor?.bytes ?? [])]).toEqual([0, 0x3c, 0, 0xc0]);
  });

  it("come out of a blob, stored in an encoding or not", () => {
    const packed = tensorOf(new Uint8Array([1, 255, 2, 0]).buffer, {
      dtype: "int32",
      shape: [3],
      encoding: "int8x4",
    });
    expect(packed && [...new Int32Array(packed.bytes.buffer)]).toEqual([1, -1, 2]);
    expect(tensorOf(new ArrayBuffer(4), { dtype: "float32", shape: [2] })).toBeNull();
    expect(tensorOf(new ArrayBuffer(9), { dtype: "int64", shape: [1] })).toBeNull();
    expect(tensorOf(new ArrayBuffer(8), { dtype: "complex64", shape: [1] })).toBeNull();
  });

  it("have planes", () => {
    const plane = planeOf([2, 3, 4, 5]);
    expect(plane).toEqual({ rows: 4, columns: 5, leading: [2, 3] });
    expect(planeStart(plane, [1, 2])).toBe(100);
    expect(indexOf([2, 3, 4, 5], 107)).toEqual([1, 2, 1, 2]);
    expect(flatOf([2, 3, 4, 5], "1.2.1.2")).toBe(107);
    for (const other of [null, "", "1.2.1", "1.2.1.5", "1.2.1.-1", "1.2.1.x"])
      expect(flatOf([2, 3, 4, 5], other)).toBe(null);
    expect(leadingOf(plane, 107)).toEqual([1, 2]);
    expect(leadingOf(planeOf([]), 0)).toEqual([]);
  });

  it("are shown by the heaviest element of each cell, however many share one", () => {
    const shape = [1000, 700];
    const plane = planeOf(shape);
    const values = new Float64Array(2 * 700_000);
    const start = 700_000;
    values[start + 613 * 700 + 421] = -9;
    values[start + 613 * 700 + 422] = 8;
    values[start + 5] = Number.NaN;
    const blocks = blocksOf(values, plane, start);
    for (const scale of [0.01, 0.05, 0.125, 0.2, 0.5, 1, 3]) {
      for (const [row, column] of [
        [0, 0],
        [397.3, 203.9],
      ] as const) {
        const size = { width: 300, height: 290 };
        const cells = sampled(blocks, plane, { row, column, scale }, size);
        const holds = (flat: number) => [...cells.shown].includes(start + flat);
        const { x, y } = pixelsOf(plane, scale);
        const sees = (r: number, c: number) =>
          r >= row && c >= column && r < row + size.height / y && c < column + size.width / x;
        expect(holds(5), `${scale}`).toBe(sees(0, 5));
        if (sees(613, 421)) expect(holds(613 * 700 + 421), `${scale}`).toBe(true);
        expect(cells.down * cells.across).toBeLessThan(301 * 301);
        expect(Math.max(...cells.shown)).toBeLessThan(values.length);
      }
    }
  });

  it("are not drawn as hairs, however long and thin they are", () => {
    expect(pixelsOf(planeOf([30_522]), 0.01)).toEqual({ x: 0.01, y: 24 });
    expect(pixelsOf(planeOf([30_522, 384]), 0.01).x).toBeCloseTo(160 / 384);
    expect(pixelsOf(planeOf([17, 384]), 20)).toEqual({ x: 20, y: 20 });
    const plane = planeOf([1, 10_000]);
    const values = new Float64Array(10_000);
    values[7777] = 3;
    const cells = sampled(blocksOf(values, plane, 0), plane, whole(plane, 400, 300), {
      width: 400,
      height: 24,
    });
    expect([cells.down, cells.across, cells.high, cells.wide]).toEqual([1, 400, 1, 25]);
    expect([...cells.shown].indexOf(7777)).toBe(311);
  });

  it("are zoomed about the pointer, and never left", () => {
    const plane = planeOf([1000, 2000]);
    const size = { width: 400, height: 200 };
    const all = whole(plane, size.width, size.height);
    expect(all.scale).toBe(0.2);
    const near = zoomed(all, 10, { x: 200, y: 100 }, plane, size);
    expect(near.column + 200 / near.scale).toBeCloseTo(1000);
    expect(zoomed(near, 0.001, { x: 0, y: 0 }, plane, size)).toEqual(all);
    expect(kept({ row: -5, column: 1e6, scale: 2 }, plane, size)).toEqual({ row: 0, column: 1800, scale: 2 });
  });
});

describe("sameDevice", () => {
  const devices = {
    connected: [{ ...device("live", "Chromium 156"), busy: false, unavailable: null }],
    gone: [],
    startable: [
      { name: "chromium", available: true, message: "" },
      { name: "node-dawn", available: true, message: "" },
      { name: "deno", available: false, message: "not installed" },
    ],
  };

  it("is the connected one, or what starts another of its sort", () => {
    expect(sameDevice(device("live", "x"), devices)).toBe("live");
    expect(sameDevice(device("earlier", "Chromium 156"), devices)).toBe("live");
    expect(sameDevice(device("earlier", "Chromium 155"), devices)).toBe("chromium");
    expect(sameDevice(device("earlier", "node-dawn 0.6.2"), devices)).toBe("node-dawn");
    expect(sameDevice(device("earlier", "Deno 2.5"), devices)).toBeNull();
    expect(sameDevice(device("earlier", "Ann's phone"), devices)).toBeNull();
  });
});
