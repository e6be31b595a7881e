import type { Gpu } from "../hal/gpu";
import { Buffers } from "../tvm/buffers";
import { Kernels } from "../tvm/kernels";
import { type Context, instantiate } from "../tvm/tvmjs";
import type { Blobs } from "./blobs";
import { PristineBuffers } from "./pristine";
import { Tensors } from "./tensors";

const RUNTIME_WASM = "/static/runtime.wasm";

/** All that lives as long as one GPU device: tvmjs' context, pipelines, buffers, tensors. */
export class Engine {
  readonly buffers: Buffers;
  readonly pristine: PristineBuffers;
  readonly kernels: Kernels;
  readonly tensors: Tensors;

  private constructor(
    readonly gpu: Gpu,
    readonly context: Context,
    readonly blobs: Blobs,
  ) {
    this.buffers = new Buffers(context);
    this.pristine = new PristineBuffers(this.buffers);
    this.kernels = new Kernels(context, (digest, signal) => blobs.text(digest, signal));
    this.tensors = new Tensors(this.buffers, this.pristine);
  }

  static async create(gpu: Gpu, blobs: Blobs): Promise<Engine> {
    const response = await fetch(RUNTIME_WASM);
    if (!response.ok) throw new Error(`${RUNTIME_WASM} could not be fetched: HTTP ${response.status}`);
    const { context } = await instantiate(await response.arrayBuffer(), gpu.device);
    return new Engine(gpu, context, blobs);
  }
}
