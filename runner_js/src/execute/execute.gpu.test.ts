import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { DeviceFailure } from "../hal/errors";
import type { Command, ErrorReport } from "../protocol/messages";
import { TestDevice } from "../testing/dawn";
import * as kernels from "../testing/kernels";
import {
  addText,
  allocate,
  call,
  callAt,
  doubleOf,
  download,
  floats,
  free,
  kernelOf,
  load,
  view,
} from "../testing/kernels";

let device: TestDevice;
const put = (digest: string, bytes: Parameters<TestDevice["put"]>[1]) => device.put(digest, bytes);
const range = (count: number) => Array.from({ length: count }, (_, i) => i);
const constant = (count: number, value: number) => Array<number>(count).fill(value);

/** Values under a digest that is the tensor's name. */
function upload(tensor: string, values: number[]): Command {
  const digest = put(`${tensor}.bytes`, Float32Array.from(values));
  return kernels.upload(tensor, { ...floats(values.length), digest });
}

async function reportOf(promise: Promise<unknown>): Promise<ErrorReport> {
  const cause = await promise.catch((thrown: unknown) => thrown);
  if (!(cause instanceof DeviceFailure)) throw new Error(`not a DeviceFailure: ${cause}`);
  return cause.report;
}

beforeEach(async () => {
  device = await TestDevice.open();
});

afterEach(() => {
  vi.restoreAllMocks();
  device.close();
});

describe("execute on Dawn", () => {
  it("loads, uploads, allocates, calls and downloads", async () => {
    const { result, floats } = await device.execute([
      load(kernelOf(addText(1000), put)),
      upload("a", range(1000)),
      upload(
        "b",
        range(1000).map((i) => 0.5 * i),
      ),
      allocate("c", 1000),
      call("add", "a", "b", "c"),
      download("c"),
      download("a"),
    ]);
    expect(floats).toEqual([range(1000).map((i) => 1.5 * i), range(1000)]);
    expect(result).toMatchObject({
      downloads: [4000, 4000],
      variants: { "l/add": "default" },
      gpu_seconds: null,
    });
  });

  it("keeps libraries and tensors from one execute to the next", async () => {
    await device.execute([load(kernelOf(addText(4), put)), upload("a", range(4)), allocate("c", 4)]);
    await device.execute([call("add", "a", "a", "c")]);
    expect(await device.read("c")).toEqual([[0, 2, 4, 6]]);
  });

  it("fills what is allocated with NaN, also where memory is used again", async () => {
    await device.execute([load(kernelOf(addText(100), put)), upload("a", range(100)), allocate("c", 100)]);
    await device.execute([call("add", "a", "a", "c"), free("c"), allocate("d", 100)]);
    expect(await device.read("d")).toEqual([constant(100, Number.NaN)]);
  });

  it("passes scalars and the number of workgroups in the uniform", async () => {
    const text = {
      name: "scale",
      access: ["read", "write"] as const,
      scalars: [
        { type: "f32" as const, value: 2.5 },
        { type: "i32" as const, value: -3 },
        { type: "u32" as const, value: 7 },
      ],
      body: "p1[i] = p0[i] * podArgs.s0 + f32(podArgs.s1) + f32(podArgs.s2 + podArgs.packGridDimX);",
      elements: 130,
    };
    await device.execute([
      load(kernelOf(text, put)),
      upload("a", range(130)),
      allocate("b", 130),
      call("scale", "a", "b"),
    ]);
    // 130 elements are 3 workgroups of 64.
    expect(await device.read("b")).toEqual([range(130).map((i) => 2.5 * i - 3 + 7 + 3)]);
  });

  it("does not change the bytes of a digest when a kernel writes its input", async () => {
    const text = { name: "grow", access: ["write"] as const, body: "p0[i] = p0[i] + 1.0;", elements: 8 };
    const again: Command = { ...(upload("a", range(8)) as object), tensor: "again" } as Command;
    await device.execute([load(kernelOf(text, put)), upload("a", range(8)), view("v", "a", 2, 4), again]);
    await device.execute([call("grow", "a"), call("grow", "a")]);
    const grown = range(8).map((i) => i + 2);
    expect(await device.read("a", "v", "again")).toEqual([grown, grown, range(8)]);
    await device.execute([{ ...again, tensor: "late" } as Command]);
    expect(await device.read("late")).toEqual([range(8)]);
  });

  it("writes through views, and keeps them when what they were made of is freed", async () => {
    await device.execute([
      load(kernelOf(addText(6), put)),
      upload("a", range(6)),
      allocate("c", 6),
      view("v", "c", 2, 3),
      view("start", "c", 2),
      call("add", "a", "a", "v"),
      free("c"),
    ]);
    expect(await device.read("v", "start")).toEqual([
      [0, 2, 4, 6, 8, 10],
      [0, 2],
    ]);
    expect((await reportOf(device.read("c"))).message).toContain("there is no tensor c on this device");
  });

  it("copies, leaving alone what shares bytes or lies behind", async () => {
    const copy = (of: string, tensor: string): Command => ({ op: "copy", tensor, of });
    const same: Command = { ...(upload("a", range(6)) as object), tensor: "same" } as Command;
    await device.execute([
      upload("a", range(6)),
      same,
      upload("b", constant(6, 7)),
      allocate("c", 8),
      view("start", "c", 2, 3),
      copy("b", "a"),
      copy("same", "start"),
      copy("c", "c"),
    ]);
    expect(await device.read("a", "same", "c")).toEqual([constant(6, 7), range(6), [...range(6), NaN, NaN]]);
    const wrong = await reportOf(device.execute([copy("a", "c")]));
    expect(wrong.message).toBe("tensor a, float32[6], cannot be copied to c, float32[8]");
    expect((await reportOf(device.execute([copy("a", "none")]))).message).toContain("no tensor none");
  });

  it("runs several dispatches of one call with temporaries between them", async () => {
    const double = { name: "double", access: ["read", "write"] as const, elements: 300, temporaries: [1200] };
    const first = kernels.variantOf({ ...double, name: "first", body: "p1[i] = 2.0 * p0[i];" }, put);
    const second = kernels.variantOf(
      { ...double, name: "second", access: ["read", "write"], body: "p1[i] = 1.0 + p0[i];" },
      put,
    );
    // x -> temporary -> y
    const launches = [
      ...first.launches.map((launch) => ({ ...launch, operands: [{ argument: 0 }, { temporary: 0 }] })),
      ...second.launches.map((launch) => ({ ...launch, operands: [{ temporary: 0 }, { argument: 1 }] })),
    ];
    const entry_points = [...first.entry_points, ...second.entry_points];
    const kernel = { kernel: "double", symbols: [], variants: [{ ...first, entry_points, launches }] };
    await device.execute([
      load(kernel),
      upload("x", range(300)),
      allocate("y", 300),
      call("double", "x", "y"),
    ]);
    expect(await device.read("y")).toEqual([range(300).map((i) => 2 * i + 1)]);
    expect(device.engine.buffers.statistics.live).toBe(2);
  });

  it("runs one kernel at several sizes, each prepared once", async () => {
    const { device: gpu } = device.engine.gpu;
    const made = vi.spyOn(gpu, "createBuffer");
    const uniforms = () => made.mock.calls.filter(([{ usage }]) => usage === GPUBufferUsage.UNIFORM).length;
    const sizes = [100, 5000, 100, 7, 5000];
    await device.execute([load(doubleOf(put))]);
    for (const n of sizes) {
      const commands = [
        upload(`x${n}`, range(n)),
        allocate(`y${n}`, n),
        callAt({ n }, "double", `x${n}`, `y${n}`),
      ];
      await device.execute(commands);
      expect(await device.read(`y${n}`)).toEqual([range(n).map((i) => 2 * i)]);
    }
    expect(uniforms()).toBe(3);
  });

  it("runs more workgroups than a dimension may have, folded by the kernel's own expressions", async () => {
    const n = 2 * 65_535 + 3;
    await device.execute([
      load(doubleOf(put)),
      upload("x", range(n)),
      allocate("y", n),
      callAt({ n }, "double", "x", "y"),
    ]);
    const [got = []] = await device.read("y");
    expect([got.length, got.findIndex((value, i) => value !== Math.fround(2 * i))]).toEqual([n, -1]);
  });

  it.each([
    [undefined, "kernel double: no size is given for n (1 to 10000000)"],
    [{ n: 0 }, "kernel double: n is 0, and must be from 1 to 10000000"],
    [{ n: 1, m: 2 }, "kernel double: a size is given for m, and there is no symbol m here: there are n"],
  ])("says what is wrong with the sizes %j", async (sizes, message) => {
    await device.execute([load(doubleOf(put)), upload("x", [1]), allocate("y", 1)]);
    const wrong = callAt(sizes as { n: number }, "double", "x", "y");
    if (!sizes) delete (wrong as { sizes?: unknown }).sizes;
    expect(await reportOf(device.execute([wrong]))).toMatchObject({
      kind: "protocol",
      kernel: "double",
      message,
    });
    await device.execute([callAt({ n: 1 }, "double", "x", "y")]);
    expect(await device.read("y")).toEqual([[2]]);
  });

  it("uses freed memory again", async () => {
    await device.execute([allocate("a", 1000), allocate("b", 1000)]);
    await device.execute([free("a", "b", "neverThere")]);
    expect(device.engine.buffers.statistics).toMatchObject({ live: 0, idle: 2 });
    const made = vi.spyOn(device.engine.gpu.device, "createBuffer");
    await device.execute([allocate("s.c", 1000), allocate("s.d", 990)]);
    expect(made).not.toHaveBeenCalled();
    expect(device.engine.buffers.statistics).toMatchObject({ live: 2, idle: 0 });
    await device.execute([{ op: "free_prefix", prefix: "s." }]);
    expect(device.engine.buffers.statistics).toMatchObject({ live: 0, idle: 2 });
  });

  it("holds no more buffers after 5,000 calls than before", async () => {
    await device.execute([
      load(kernelOf(addText(1024), put)),
      upload("a", constant(1024, 1)),
      upload("zero", constant(1024, 0)),
      allocate("x", 1024),
      allocate("y", 1024),
      call("add", "zero", "zero", "x"),
    ]);
    const before = device.engine.buffers.statistics;
    const calls = range(2500).flatMap(() => [call("add", "a", "x", "y"), call("add", "a", "y", "x")]);
    await device.execute(calls);
    expect(device.engine.buffers.statistics).toEqual(before);
    expect(await device.read("x")).toEqual([constant(1024, 5000)]);
  });

  it("frees within one execute what a loop allocates", async () => {
    await device.execute([load(kernelOf(addText(1024), put)), upload("x0", constant(1024, 1))]);
    const { live } = device.engine.buffers.statistics;
    const steps = range(1500).flatMap((i) => [
      allocate(`x${i + 1}`, 1024),
      call("add", `x${i}`, "x0", `x${i + 1}`),
      ...(i ? [free(`x${i}`)] : []),
    ]);
    await device.execute(steps);
    expect(device.engine.buffers.statistics.live).toBe(live + 1);
    expect(await device.read("x1500")).toEqual([constant(1024, 1501)]);
  });

  it("does not make new temporaries for each call of one execute", async () => {
    const text = {
      name: "through",
      access: ["read", "write", "write"] as const,
      body: "p2[i] = p0[i]; p1[i] = p2[i];",
      elements: 64,
      temporaries: [1 << 20],
    };
    await device.execute([load(kernelOf(text, put)), upload("a", range(64)), allocate("b", 64)]);
    const made = vi.spyOn(device.engine.gpu.device, "createBuffer");
    await device.execute(range(300).map(() => call("through", "a", "b")));
    expect(await device.read("b")).toEqual([range(64)]);
    expect(made.mock.calls.length).toBeLessThan(10);
  });

  it("gives the GPU time of each call where it is asked for", async ({ skip }) => {
    if (!device.engine.gpu.timestamps) skip();
    const { result } = await device.execute(
      [
        load(kernelOf(addText(4096), put)),
        upload("a", range(4096)),
        allocate("c", 4096),
        ...range(3000).map(() => call("add", "a", "a", "c")),
      ],
      { timing: true },
    );
    expect(result.gpu_seconds).toHaveLength(3000);
    expect(result.gpu_seconds?.every((seconds) => seconds >= 0 && seconds < 10)).toBe(true);
    expect(result.gpu_seconds?.some((seconds) => seconds > 0)).toBe(true);
  });

  it("streams 20 MB and stores them whole", async () => {
    await streamed(20 << 20);
  });

  it("streams what ends within a word", async () => {
    await streamed((12 << 20) + 3);
  });

  it("uploads 4 MB and three bytes at once", async () => {
    await streamed((4 << 20) + 3);
  });

  it("says what is wrong with a stream, and holds nothing of it", async () => {
    const bytes = 20 << 20;
    const digest = put("short", new Uint8Array(bytes - 1));
    const commands = [kernels.upload("a", { dtype: "uint8", shape: [bytes], digest })];
    expect(await reportOf(device.execute(commands))).toMatchObject({
      kind: "fetch",
      message: `blob short has ${bytes - 1} bytes where its shape and dtype make ${bytes}`,
    });
    expect(device.engine.buffers.statistics.live).toBe(0);
    expect(device.engine.tensors.typeOf("a")).toBeUndefined();
  });

  async function streamed(bytes: number): Promise<void> {
    const data = new Uint8Array(bytes);
    for (let i = 0; i < bytes; i++) data[i] = (i * 2654435761) >>> 24;
    device.piece = 65_537;
    const ref = { dtype: "uint8" as const, shape: [bytes], digest: put("large", data) };
    const { downloads } = await device.execute([kernels.upload("a", ref), download("a")]);
    expect(downloads[0]?.byteLength).toBe(bytes);
    expect(downloads[0]?.findIndex((byte, i) => byte !== data[i])).toBe(-1);
    // The second time there is nothing to fetch.
    device.blobs.clear();
    await device.execute([kernels.upload("b", ref)]);
    expect(device.engine.tensors.buffer("b")).toBe(device.engine.tensors.buffer("a"));
  }
});
