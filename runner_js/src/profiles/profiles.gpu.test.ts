import { afterEach, describe, expect, it } from "vitest";
import { create, globals } from "webgpu";
import { acquireGpu, type Gpu } from "../hal/gpu";
import { gpuOf } from "../platform/dawn";
import type { Platform } from "../platform/platform";
import { TestDevice } from "../testing/dawn";
import { addText, allocate, call, download, floats, free, kernelOf, load, upload } from "../testing/kernels";
import { withProfile } from "./profiles";

const platform: Platform = {
  runtime: "node",
  name: "node-dawn 1",
  userAgent: "node",
  origin: "http://tests",
  secure: true,
  gpu: gpuOf({ create, globals }),
};
let opened: Gpu | null = null;

async function acquire(profile: string | null): Promise<Gpu> {
  const gpu = await acquireGpu(withProfile(platform, profile).gpu, platform);
  if ("unavailable" in gpu) throw new Error(gpu.unavailable);
  opened = gpu;
  return gpu;
}

afterEach(() => {
  opened?.device.destroy();
  opened = null;
});

describe("device profiles on Dawn", () => {
  it("leave a device alone that was started without one", () => {
    expect(withProfile(platform, null)).toBe(platform);
  });

  it("are named in the device's name", () => {
    expect(withProfile(platform, "no-f16").name).toBe("node-dawn 1 (profile no-f16)");
  });

  it("say which there are where one is unknown", async () => {
    const gpu = await acquireGpu(withProfile(platform, "slow").gpu, platform);
    expect(gpu).toMatchObject({
      unavailable: expect.stringContaining("no device profile slow: give least-limits"),
    });
  });

  it.each([
    ["least-limits", "maxComputeInvocationsPerWorkgroup", 256],
    ["least-limits", "maxStorageBuffersPerShaderStage", 8],
    ["ten-buffers", "maxStorageBuffersPerShaderStage", 10],
    ["small-bindings", "maxStorageBufferBindingSize", 4096],
    ["few-workgroups", "maxComputeWorkgroupsPerDimension", 4],
  ])("%s: %s is %i, in what the device says and in its own limits", async (profile, limit, value) => {
    const { capabilities, device } = await acquire(profile);
    expect(capabilities.limits[limit]).toBe(value);
    expect(device.limits[limit as keyof GPUSupportedLimits]).toBe(value);
  });

  it("no-f16: the device lacks the feature, whatever the real one offers", async () => {
    const real = await acquire(null);
    const { features } = (await acquire("no-f16")).capabilities;
    expect(features).not.toContain("shader-f16");
    expect(features).toEqual(real.capabilities.features.filter((name) => name !== "shader-f16"));
  });

  it("no-info: a device is given, of which the least is assumed", async () => {
    const { capabilities, device } = await acquire("no-info");
    expect(capabilities.adapter).toEqual({ vendor: "", architecture: "", device: "", description: "" });
    expect(capabilities.limits).toMatchObject({ subgroupMinSize: 4, subgroupMaxSize: 128 });
    expect(device.adapterInfo).toBeUndefined();
  });
});

describe("devices that misbehave", () => {
  let device: TestDevice;
  afterEach(() => device.close());

  async function open(profile: string | null): Promise<void> {
    device = await TestDevice.open({}, (gpu) => withProfile({ ...platform, gpu }, profile).gpu as GPU);
    await device.execute([load(kernelOf(addText(16), (digest, bytes) => device.put(digest, bytes)))]);
  }

  const ones = (digest: string) => {
    const data = new Float32Array(16).fill(1);
    return { ...floats(16), digest: device.put(digest, data) };
  };

  it.each([
    [null, 2],
    ["early-done", 0],
  ])("%s: a result that is read back is %i", async (profile, value) => {
    await open(profile);
    const { floats: read } = await device.execute([
      upload("a", ones("a")),
      allocate("c", 16),
      call("add", "a", "a", "c"),
      download("c"),
    ]);
    expect(read).toEqual([Array(16).fill(value)]);
  });

  it.each([
    [null, 1],
    ["early-write", 2],
  ])("%s: memory that a pass has written and that is used again holds %i", async (profile, value) => {
    await open(profile);
    // Kernel A writes c, c is freed, its memory is used for b: A must not run after b was written.
    const { floats: read } = await device.execute([
      upload("a", ones("a")),
      allocate("c", 16),
      call("add", "a", "a", "c"),
      free("c"),
      upload("b", ones("b")),
      download("b"),
    ]);
    expect(read).toEqual([Array(16).fill(value)]);
  });
});
