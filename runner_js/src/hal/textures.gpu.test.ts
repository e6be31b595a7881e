import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { Texture } from "../program/textures";
import { type CountedGpu, countedGpu } from "../testing/gpus";
import { Textures } from "./textures";

const texture = (width: number): Texture => {
  return { dimension: "2d", format: "rgba32float", size: [width, 1, 1] };
};

let counted: CountedGpu;
beforeAll(async () => {
  counted = await countedGpu();
});
afterAll(() => counted.gpu.device.destroy());

describe("Textures", () => {
  it("gives a call textures of its own, and the next call the same ones", async () => {
    const textures = new Textures(counted.gpu.device);
    const [a, b, c] = textures.of([texture(4), texture(4), texture(5)]);
    expect(new Set([a, b, c]).size).toBe(3);
    expect(textures.of([texture(5), texture(4)])).toEqual([c, a]);
    expect(await textures.made()).toBeNull();
  });

  it("gives back what was used least recently", () => {
    const textures = new Textures(counted.gpu.device);
    const [a, b] = textures.of([texture(1), texture(2)]);
    textures.of([texture(1)]);
    textures.trim(16);
    expect(textures.of([texture(1)])[0]).toBe(a);
    expect(textures.of([texture(2)])[0]).not.toBe(b);
  });

  it("tells once of one that cannot be made, and tries again", async () => {
    const textures = new Textures(counted.gpu.device);
    const make = vi.spyOn(counted.gpu.device, "createTexture");
    textures.of([texture(2 ** 20)]);
    expect((await textures.made())?.kind).toBe("validation");
    expect(await textures.made()).toBeNull();
    textures.of([texture(2 ** 20)]);
    expect(make).toHaveBeenCalledTimes(2);
    expect(await textures.made()).not.toBeNull();
  });
});
