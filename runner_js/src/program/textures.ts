/** Textures that a kernel's launches have between them, in the runner and in exported pages alike. */
import type { Binding, EntryPoint, Launch, TextureTemporary, Variant } from "../protocol/messages";
import { extent, type Sizes } from "./expressions";
import { storageBindings } from "./launches";

/** A texture at the sizes of a call. */
export interface Texture {
  readonly dimension: TextureTemporary["dimension"];
  readonly format: TextureTemporary["format"];
  /** Width, height, and depth or layers, in texels. */
  readonly size: readonly [number, number, number];
}

/** More than any device has along an axis. */
export const MOST_TEXELS = 2 ** 15;

/** Throws an ExpressionError. */
export function texturesAt({ textures = [] }: Pick<Variant, "textures">, sizes: Sizes): Texture[] {
  return textures.map(({ dimension, format, size }, i) => {
    const along = (axis: number) =>
      extent(size[axis] ?? 1, sizes, `textures[${i}].size[${axis}]`, 1, MOST_TEXELS);
    return { dimension, format, size: [along(0), along(1), along(2)] };
  });
}

export function textureBytes({ format, size: [width, height, depth] }: Texture): number {
  const channels = format.startsWith("rgba") ? 4 : 1;
  return width * height * depth * channels * (format.includes("16") ? 2 : 4);
}

/** A name for each: of those of one kind that a call has, each its own. What comes after on the queue may have the same. */
export function keysOf(textures: readonly Texture[]): string[] {
  const counted = new Map<string, number>();
  return textures.map((texture) => {
    const kind = JSON.stringify(texture);
    const number = (counted.get(kind) ?? 0) + 1;
    counted.set(kind, number);
    return kind + number;
  });
}

type Limits = Pick<
  GPUSupportedLimits,
  "maxTextureDimension2D" | "maxTextureDimension3D" | "maxTextureArrayLayers"
>;

/** The end of a sentence about the first of its extents that is beyond what a device allows; null where none is. */
export function textureTooLarge({ dimension, size }: Texture, limits: Limits): string | null {
  const plane = dimension === "3d" ? "maxTextureDimension3D" : "maxTextureDimension2D";
  const names = [plane, plane, dimension === "3d" ? plane : "maxTextureArrayLayers"] as const;
  const axis = size.findIndex((texels, i) => texels > limits[names[i] as keyof Limits]);
  if (axis < 0) return null;
  const name = names[axis] as keyof Limits;
  return `needs a texture of [${size}] texels, this device allows ${name} ${limits[name]}`;
}

/** Whether its access is one that such a binding has. */
export function isBinding({ access, texture }: Binding): boolean {
  if (!texture) return access !== "write";
  return access === (texture.format ? "write" : "read");
}

/** Whether a launch's operand can be bound there. A texture that there is not fits nowhere. */
export function fits(
  { access, texture }: Binding,
  operand: Launch["operands"][number],
  { textures = [] }: Pick<Variant, "textures">,
): boolean {
  if (!texture || !("texture" in operand)) return !texture && !("texture" in operand);
  const given = textures[operand.texture];
  if (given?.dimension !== texture.dimension) return false;
  return access === "read" ? numbersOf(given.format) === texture.numbers : given.format === texture.format;
}

interface Launched {
  readonly entry_points: readonly Pick<EntryPoint, "name" | "bindings">[];
  readonly launches: readonly Pick<Launch, "entry_point" | "operands">[];
  readonly textures?: readonly Pick<TextureTemporary, "dimension" | "size">[];
}

/**
 * The end of a sentence about the first texture of a variant that has a depth and none is seen of it, or that is read
 * before a launch writes it; null where there is none. All launches fit their bindings.
 */
export function misusedTexture({ entry_points, launches, textures = [] }: Launched): string | null {
  for (const [number, { dimension, size }] of textures.entries()) {
    if (dimension === "2d" && size[2] !== 1)
      return `has a depth of ${JSON.stringify(size[2])} for its texture ${number}, which is 2d: make it 1, or 2d-array`;
  }
  const written = new Set<number>();
  for (const [place, { entry_point, operands }] of launches.entries()) {
    const { bindings = [] } = entry_points.find(({ name }) => name === entry_point) ?? {};
    for (const [i, { access }] of storageBindings({ bindings }).entries()) {
      const { texture = -1 } = (operands[i] ?? {}) as { texture?: number };
      // In one launch a texture is either written or read.
      if (access === "write") written.add(texture);
      else if (texture >= 0 && !written.has(texture))
        return `reads its texture ${texture} in launch ${place}, and no launch before that writes it`;
    }
  }
  return null;
}

function numbersOf(format: Texture["format"]): string {
  return format.endsWith("float") ? "f32" : format.endsWith("sint") ? "i32" : "u32";
}
