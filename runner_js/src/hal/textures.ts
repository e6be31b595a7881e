import { keysOf, type Texture, textureBytes } from "../program/textures";
import type { ErrorReport } from "../protocol/messages";
import { captureErrors } from "./scopes";

/** Bytes of textures that wait to be used again. */
const IDLE_BYTES = 128 << 20;

/** One that a kernel writes and reads, with any content. */
export function makeTexture(device: GPUDevice, { dimension, format, size }: Texture): GPUTexture {
  return device.createTexture({
    size: [...size],
    dimension: dimension === "3d" ? "3d" : "2d",
    format,
    usage: GPUTextureUsage.TEXTURE_BINDING | GPUTextureUsage.STORAGE_BINDING,
  });
}

export function viewOf(texture: GPUTexture, { dimension }: Texture): GPUTextureView {
  // Of one layer the view would be no array.
  return texture.createView({ dimension });
}

interface Made {
  readonly texture: GPUTexture;
  readonly view: GPUTextureView;
  readonly bytes: number;
}

/**
 * Textures between the launches of a call. The queue keeps the order, so calls share those of one kind: each call has as
 * many of a kind as it asks for, and the next call the same ones.
 */
export class Textures {
  private readonly known = new Map<string, Made>();
  private bytes = 0;
  private unmade: Promise<ErrorReport | null> = Promise.resolve(null);

  constructor(private readonly device: GPUDevice) {}

  /** Of making those that were made since this was asked for the last time. */
  made(): Promise<ErrorReport | null> {
    const { unmade } = this;
    this.unmade = Promise.resolve(null);
    return unmade;
  }

  /** Their views, in their order. */
  of(wanted: readonly Texture[]): GPUTextureView[] {
    return keysOf(wanted).map((key, i) => {
      const texture = wanted[i] as Texture;
      const found = this.known.get(key) ?? this.make(texture, key);
      // Used last, given back last.
      this.known.delete(key);
      this.known.set(key, found);
      return found.view;
    });
  }

  /** Gives back memory beyond what is worth keeping. Call when nothing recorded waits to be submitted. */
  trim(most = IDLE_BYTES): void {
    for (const key of this.known.keys()) {
      if (this.bytes <= most) return;
      this.discard(key);
    }
  }

  private make(wanted: Texture, key: string): Made {
    const captured = captureErrors(this.device);
    const texture = makeTexture(this.device, wanted);
    const view = viewOf(texture, wanted);
    const answer = captured();
    const before = this.unmade;
    this.unmade = answer.then(async (error) => {
      // One that could not be made is no good to anybody.
      if (error && this.known.get(key)?.texture === texture) this.discard(key);
      return (await before) ?? error;
    });
    const made = { texture, view, bytes: textureBytes(wanted) };
    this.known.set(key, made);
    this.bytes += made.bytes;
    return made;
  }

  private discard(key: string): void {
    const found = this.known.get(key);
    if (!found) return;
    this.known.delete(key);
    this.bytes -= found.bytes;
    found.texture.destroy();
  }
}
