import { describe, expect, it } from "vitest";
import type { Binding, TextureTemporary } from "../protocol/messages";
import { ExpressionError } from "./expressions";
import {
  fits,
  isBinding,
  keysOf,
  misusedTexture,
  type Texture,
  textureBytes,
  texturesAt,
  textureTooLarge,
} from "./textures";

const made = (size: TextureTemporary["size"]): TextureTemporary => {
  return { dimension: "2d", format: "rgba32float", size };
};
const texture = (change: Partial<Texture> = {}): Texture => {
  return { dimension: "2d", format: "rgba32float", size: [4, 2, 1], ...change };
};
const limits = { maxTextureDimension2D: 8, maxTextureDimension3D: 4, maxTextureArrayLayers: 2 };

describe("textures", () => {
  it("have the sizes of a call", () => {
    const textures = [made([["ceildiv", "n", 4], "n", 1])];
    expect(texturesAt({ textures }, { n: 7 })).toEqual([texture({ size: [2, 7, 1] })]);
    expect(texturesAt({}, {})).toEqual([]);
    expect(() => texturesAt({ textures }, { n: 0 })).toThrow(ExpressionError);
    expect(() => texturesAt({ textures }, { n: 0 })).toThrow("textures[0].size[0]");
    expect(() => texturesAt({ textures }, { n: 1e6 })).toThrow("at most 32768");
  });

  it.each<[Partial<Texture>, number]>([
    [{}, 4 * 2 * 16],
    [{ format: "rgba16float" }, 4 * 2 * 8],
    [{ format: "r32uint", size: [3, 3, 3], dimension: "3d" }, 27 * 4],
  ])("%j takes %i bytes", (change, bytes) => {
    expect(textureBytes(texture(change))).toBe(bytes);
  });

  it.each<[Partial<Texture>, string | null]>([
    [{ size: [8, 8, 1] }, null],
    [{ size: [1, 9, 1] }, "needs a texture of [1,9,1] texels, this device allows maxTextureDimension2D 8"],
    [{ dimension: "2d-array", size: [8, 8, 2] }, null],
    [
      { dimension: "2d-array", size: [1, 1, 3] },
      "needs a texture of [1,1,3] texels, this device allows maxTextureArrayLayers 2",
    ],
    [
      { dimension: "3d", size: [4, 4, 5] },
      "needs a texture of [4,4,5] texels, this device allows maxTextureDimension3D 4",
    ],
    [
      { dimension: "3d", size: [5, 4, 4] },
      "needs a texture of [5,4,4] texels, this device allows maxTextureDimension3D 4",
    ],
  ])("%j fit a device, or not", (change, sentence) => {
    expect(textureTooLarge(texture(change), limits)).toBe(sentence);
  });

  it("have keys of their own within a call, and the same in the next one", () => {
    const found = keysOf([texture(), texture({ size: [1, 1, 1] }), texture()]);
    expect(new Set(found).size).toBe(3);
    expect(keysOf([texture(), texture()])).toEqual([found[0], found[2]]);
  });

  const read: Binding = { binding: 0, access: "read", texture: { dimension: "2d", numbers: "f32" } };
  const written: Binding = {
    binding: 0,
    access: "write",
    texture: { dimension: "2d", numbers: "f32", format: "rgba32float" },
  };
  const buffer: Binding = { binding: 0, access: "read" };

  it.each<[Binding, boolean]>([
    [read, true],
    [written, true],
    [buffer, true],
    [{ ...buffer, access: "write" }, false],
    [{ ...read, access: "read_write" }, false],
    [{ ...read, access: "uniform" }, false],
    [{ ...read, access: "write" }, false],
    [{ ...written, access: "read" }, false],
    [{ ...buffer, texture: null }, true],
  ])("%j is a binding: %s", (binding, expected) => {
    expect(isBinding(binding)).toBe(expected);
  });

  it.each<[string, Binding, object, Partial<Texture>, boolean]>([
    ["a texture that is read", read, { texture: 0 }, {}, true],
    ["one of float16, read as f32", read, { texture: 0 }, { format: "rgba16float" }, true],
    ["one of integers", read, { texture: 0 }, { format: "r32sint" }, false],
    ["one of another dimension", read, { texture: 0 }, { dimension: "3d" }, false],
    ["one that is not there", read, { texture: 1 }, {}, false],
    ["one that is written", written, { texture: 0 }, {}, true],
    ["one of another format", written, { texture: 0 }, { format: "r32float" }, false],
    ["a buffer for a texture", read, { argument: 0 }, {}, false],
    ["a texture for a buffer", buffer, { texture: 0 }, {}, false],
    ["a temporary", buffer, { temporary: 0 }, {}, true],
  ])("tells whether %s fits", (_, binding, operand, change, expected) => {
    const textures = [{ ...made([4, 2, 1]), ...change } as TextureTemporary];
    expect(fits(binding, operand as Parameters<typeof fits>[1], { textures })).toBe(expected);
  });

  const packs = { entry_point: "pack", operands: [{ argument: 0 }, { texture: 0 }] };
  const reads = { entry_point: "read", operands: [{ texture: 0 }, { argument: 1 }] };
  const early = (place: number) =>
    `reads its texture 0 in launch ${place}, and no launch before that writes it`;

  it.each<[string, object[], TextureTemporary["size"], string | null]>([
    ["written, then read", [packs, reads], ["n", 4, 1], null],
    ["written twice", [packs, packs, reads, reads], [1, 1, 1], null],
    ["read first", [reads, packs], ["n", 4, 1], early(0)],
    ["never written", [reads], ["n", 4, 1], early(0)],
    ["never used", [], ["n", 4, 1], null],
    ["deep", [packs], [1, 4, 2], "has a depth of 2 for its texture 0, which is 2d: make it 1, or 2d-array"],
    [
      "as deep as a size says",
      [packs],
      [1, 4, "n"],
      'has a depth of "n" for its texture 0, which is 2d: make it 1, or 2d-array',
    ],
  ])("are misused where one is %s, or not", (_, launches, size, sentence) => {
    const entry_points = [
      { name: "pack", bindings: [buffer, { ...written, binding: 1 }] },
      { name: "read", bindings: [{ ...buffer, binding: 1 }, read] },
    ];
    type Launches = Parameters<typeof misusedTexture>[0]["launches"];
    const variant = { entry_points, launches: launches as unknown as Launches, textures: [made(size)] };
    expect(misusedTexture(variant)).toBe(sentence);
  });
});
