import { DeviceFailure } from "../hal/errors";
import type { Digest, TensorType } from "../protocol/messages";
import type { Buffers } from "../tvm/buffers";
import type { BufferPointer } from "../tvm/tvmjs";
import { bytesOf, describeType } from "./dtypes";
import type { PristineBuffers } from "./pristine";

/** What one or more names (views) share: a buffer of their own, or a digest's pristine one until it is written. */
interface Storage {
  pointer: BufferPointer;
  pristine: Digest | null;
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
    private readonly pristine: PristineBuffers,
  ) {}

  /** Types by name, as they are now. */
  types(): Map<string, TensorType> {
    return new Map(Array.from(this.byName, ([name, tensor]) => [name, tensor.type]));
  }

  upload(name: string, type: TensorType, digest: Digest, data: ArrayBuffer | null): void {
    const pointer = data ? this.pristine.acquireOrUpload(digest, data) : this.pristine.acquire(digest);
    if (pointer === undefined) throw new Error(`the bytes of ${digest} are not at hand`);
    this.put(name, type, { pointer, pristine: digest, bytes: bytesOf(type), names: 0 });
  }

  allocate(name: string, type: TensorType): void {
    const bytes = bytesOf(type);
    this.put(name, type, { pointer: this.buffers.allocateFilled(bytes), pristine: null, bytes, names: 0 });
  }

  view(name: string, of: string, shape: number[]): void {
    const { type, storage } = this.get(of);
    const viewed = { dtype: type.dtype, shape };
    if (bytesOf(viewed) > storage.bytes) {
      throw missing(`tensor ${name}: ${describeType(viewed)} does not fit into ${of}, ${describeType(type)}`);
    }
    this.put(name, viewed, storage);
  }

  buffer(name: string): BufferPointer {
    return this.get(name).storage.pointer;
  }

  /** Before a kernel writes: gives the tensor, its views included, bytes of its own. */
  makeWritable(name: string): void {
    const { storage } = this.get(name);
    if (!storage.pristine) return;
    const own = this.buffers.copyOf(storage.pointer, storage.bytes);
    this.pristine.release(storage.pristine);
    storage.pointer = own;
    storage.pristine = null;
  }

  free(name: string): void {
    const { storage } = this.get(name);
    this.byName.delete(name);
    this.drop(storage);
  }

  freePrefix(prefix: string): void {
    for (const name of [...this.byName.keys()]) if (name.startsWith(prefix)) this.free(name);
  }

  private put(name: string, type: TensorType, storage: Storage): void {
    storage.names++;
    const replaced = this.byName.get(name);
    this.byName.set(name, { type, storage });
    if (replaced) this.drop(replaced.storage);
  }

  private drop(storage: Storage): void {
    storage.names--;
    if (storage.names > 0) return;
    if (storage.pristine) this.pristine.release(storage.pristine);
    else this.buffers.free(storage.pointer);
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
