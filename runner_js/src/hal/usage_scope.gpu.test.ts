/** What memory plans rest on (docs/memory-plan.md): which bindings of one buffer a dispatch may have. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type CountedGpu, countedGpu } from "../testing/gpus";

const HALF = 256;
/** b[i] += a[i] */
const wgsl = (access: "read" | "read_write") => `
@group(0) @binding(0) var<storage, ${access}> a : array<u32>;
@group(0) @binding(1) var<storage, read_write> b : array<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id : vec3<u32>) { b[id.x] += a[id.x]; }`;

let counted: CountedGpu;
beforeAll(async () => {
  counted = await countedGpu();
});
afterAll(() => counted.gpu.device.destroy());

interface Bound {
  buffer: GPUBuffer;
  offset: number;
}

function made(words: number[]): GPUBuffer {
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC;
  const buffer = counted.gpu.device.createBuffer({ size: 2 * HALF, usage, mappedAtCreation: true });
  const mapped = new Uint32Array(buffer.getMappedRange());
  mapped.fill(words[0] ?? 0, 0, HALF / 4);
  mapped.fill(words[1] ?? 0, HALF / 4);
  buffer.unmap();
  return buffer;
}

/** The error of one dispatch, or null. */
async function dispatched(access: "read" | "read_write", a: Bound, b: Bound): Promise<string | null> {
  const { device } = counted.gpu;
  device.pushErrorScope("validation");
  const module = device.createShaderModule({ code: wgsl(access) });
  const pipeline = device.createComputePipeline({ layout: "auto", compute: { module } });
  const entries = [a, b].map((bound, binding) => ({ binding, resource: { ...bound, size: HALF } }));
  const group = device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, group);
  pass.dispatchWorkgroups(1);
  pass.end();
  device.queue.submit([encoder.finish()]);
  return (await device.popErrorScope())?.message ?? null;
}

async function word(buffer: GPUBuffer, offset: number): Promise<number | undefined> {
  const { device } = counted.gpu;
  const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
  const read = device.createBuffer({ size: 4, usage });
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, offset, read, 0, 4);
  device.queue.submit([encoder.finish()]);
  await read.mapAsync(GPUMapMode.READ);
  return new Uint32Array(read.getMappedRange())[0];
}

describe("bindings of one buffer in one dispatch", () => {
  it("may not be read and written, although they do not overlap", async () => {
    const arena = made([3, 4]);
    expect(await dispatched("read", { buffer: arena, offset: 0 }, { buffer: arena, offset: HALF })).toMatch(
      /usage/i,
    );
    expect(await word(arena, HALF)).toBe(4);
  });

  it("may be read and written where they are of two buffers", async () => {
    const [one, other] = [made([3, 4]), made([5, 6])];
    expect(
      await dispatched("read", { buffer: one, offset: HALF }, { buffer: other, offset: HALF }),
    ).toBeNull();
    expect(await word(other, HALF)).toBe(10);
  });

  it("may both be written where they do not overlap", async () => {
    const arena = made([3, 4]);
    expect(
      await dispatched("read_write", { buffer: arena, offset: 0 }, { buffer: arena, offset: HALF }),
    ).toBeNull();
    expect(await word(arena, HALF)).toBe(7);
  });

  it("may not both be written where they overlap", async () => {
    const arena = made([3, 4]);
    const here = { buffer: arena, offset: 0 };
    expect(await dispatched("read_write", here, here)).toMatch(/alias/i);
  });

  it("begin at multiples of 256 bytes", async () => {
    const [one, other] = [made([3, 4]), made([5, 6])];
    expect(await dispatched("read", { buffer: one, offset: 128 }, { buffer: other, offset: 0 })).toMatch(
      /256|align/i,
    );
  });
});
