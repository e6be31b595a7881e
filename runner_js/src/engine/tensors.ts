import type { Buffer, Buffers } from "../hal/buffers";
import { DeviceFailure } from "../hal/errors";
import { bytesOf, describeType } from "../program/dtypes";
import type { Digest, TensorType } from "../protocol/messages";
import type { TensorCache } from "./tensor_cache";

/** What one or more names (views) share: a buffer of their own, or the cached one of a digest until it is written. */
interface Storage {
  buffer: Buffer;
  cached: Digest | null;
  bytes: number;
  names: number;
}

interface Tensor {
  type: TensorType;
  storage: Storage;
}

/** Tensors that stay on the device between calls, under the server's names. */
export class Tensors {
  private readonly byName = new Map<string, Tensor>();

  constructor(
    private readonly buffers: Buffers,
    private readonly cache: TensorCache,
  ) {}

  upload(name: string, type: TensorType, digest: Digest, data: ArrayBuffer | null): void {
    const buffer = data ? this.cache.acquireOrUpload(digest, data) : this.cache.acquire(digest);
    if (buffer === undefined) throw new Error(`the bytes of ${digest} are not at hand`);
    this.put(name, type, { buffer, cached: digest, bytes: bytesOf(type), names: 0 });
  }

  /** Its buffer is to be filled. */
  allocate(name: string, type: TensorType): Buffer {
    const bytes = bytesOf(type);
    const buffer = this.buffers.allocate(bytes);
    this.put(name, type, { buffer, cached: null, bytes, names: 0 });
    return buffer;
  }

  view(name: string, of: string, shape: number[]): void {
    const { type, storage } = this.get(of);
    const viewed = { ...type, shape };
    if (bytesOf(viewed) > storage.bytes) {
      throw missing(`tensor ${name}: ${describeType(viewed)} does not fit into ${of}, ${describeType(type)}`);
    }
    this.put(name, viewed, storage);
  }

  buffer(name: string): Buffer {
    return this.get(name).storage.buffer;
  }

  typeOf(name: string): TensorType | undefined {
    return this.byName.get(name)?.type;
  }

  /** Before a kernel writes: gives the tensor, its views included, a buffer of its own, to copy to. */
  makeWritable(name: string): { source: Buffer; own: Buffer } | null {
    const { storage } = this.get(name);
    if (!storage.cached) return null;
    const { buffer: source } = storage;
    const own = this.buffers.allocate(storage.bytes);
    this.cache.release(storage.cached);
    storage.buffer = own;
    storage.cached = null;
    return { source, own };
  }

  /** A name that is not there is passed over. */
  free(name: string): void {
    const tensor = this.byName.get(name);
    this.byName.delete(name);
    if (tensor) this.drop(tensor.storage);
  }

  freePrefix(prefix: string): void {
    for (const name of [...this.byName.keys()]) if (name.startsWith(prefix)) this.free(name);
  }

  private put(name: string, type: TensorType, storage: Storage): void {
    storage.names++;
    const replaced = this.byName.get(name);
    // Not the command that it came with.
    const { dtype, shape, encoding = null } = type;
    this.byName.set(name, { type: { dtype, shape, encoding }, storage });
    if (replaced) this.drop(replaced.storage);
  }

  private drop(storage: Storage): void {
    storage.names--;
    if (storage.names > 0) return;
    if (storage.cached) this.cache.release(storage.cached);
    else this.buffers.free(storage.buffer);
  }

  private get(name: string): Tensor {
    const tensor = this.byName.get(name);
    if (!tensor) throw missing(`there is no tensor ${name} on this device`);
    return tensor;
  }
}

function missing(message: string): DeviceFailure {
  return new DeviceFailure({ kind: "protocol", message });
}
