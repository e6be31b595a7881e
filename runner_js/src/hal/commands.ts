import type { Texture } from "../program/textures";
import type { Buffer } from "./buffers";
import type { Executable } from "./executable";
import type { TimestampQueries } from "./queries";
import { Textures } from "./textures";

const FILL_BYTES = 1 << 20;
/** Of one dispatch; the same buffers come again where a kernel is called in a loop. */
const CACHED_BIND_GROUPS = 64;

/** Position among the call's arguments; temporary t is -1 - t. */
export type Operand = number | { readonly texture: number };

/** One dispatch of a kernel, ready but for its buffers. */
export interface Dispatch {
  readonly executable: Executable;
  /** What is bound, in binding order. */
  readonly operands: readonly Operand[];
  /** Of all dispatches of the call. */
  readonly textures: readonly Texture[];
  /** Null where the entry point has none. */
  readonly uniform: GPUBuffer | null;
  readonly workgroups: readonly [number, number, number];
  readonly bindGroups: Map<string, GPUBindGroup>;
}

/** Records work, many dispatches to one pass, and submits it as one. */
export class Commands {
  private encoder: GPUCommandEncoder | null = null;
  private pass: GPUComputePassEncoder | null = null;
  /** Of the pass. */
  private pipeline: GPUComputePipeline | null = null;
  private bound: GPUBindGroup | null = null;
  private ones: GPUBuffer | null = null;
  readonly textures: Textures;
  private readonly numbers = new WeakMap<GPUTextureView, number>();
  private views = 0;

  constructor(private readonly device: GPUDevice) {
    this.textures = new Textures(device);
  }

  /** One call of a kernel: all its dispatches. `timer` gets the time from the first one's begin to the last's end. */
  call(
    dispatches: readonly Dispatch[],
    args: readonly Buffer[],
    temporaries: readonly Buffer[],
    timer: TimestampQueries | null = null,
  ): void {
    if (timer) this.endPass();
    this.pass ??= this.encoding().beginComputePass(timer ? { timestampWrites: timer.next() } : {});
    const { pass } = this;
    const views = this.textures.of(dispatches[0]?.textures ?? []);
    for (const dispatch of dispatches) {
      const { pipeline } = dispatch.executable;
      const bindGroup = this.bindGroup(dispatch, args, temporaries, views);
      // Setting what is set already costs as much as a small dispatch.
      if (pipeline !== this.pipeline) pass.setPipeline(pipeline);
      if (bindGroup !== this.bound) pass.setBindGroup(0, bindGroup);
      this.pipeline = pipeline;
      this.bound = bindGroup;
      pass.dispatchWorkgroups(...dispatch.workgroups);
    }
    if (timer) this.endPass();
  }

  /** `bytes`: a whole number of words. */
  copy(source: Buffer, target: Buffer, bytes = source.bytes): void {
    this.copyTo(source, target.gpu, 0, bytes);
  }

  copyTo(source: Buffer, target: GPUBuffer, offset: number, bytes = source.bytes): void {
    this.endPass();
    this.encoding().copyBufferToBuffer(source.gpu, 0, target, offset, bytes);
  }

  /** 0xFF bytes: NaN for floats, so that what a kernel leaves out is seen. */
  fill(target: Buffer): void {
    this.endPass();
    const ones = this.filledSource();
    for (let offset = 0; offset < target.bytes; offset += FILL_BYTES) {
      const bytes = Math.min(FILL_BYTES, target.bytes - offset);
      this.encoding().copyBufferToBuffer(ones, 0, target.gpu, offset, bytes);
    }
  }

  resolve(timer: TimestampQueries): void {
    this.endPass();
    timer.resolve(this.encoding());
  }

  /** Submits what was recorded, if anything was. */
  submit(): void {
    this.endPass();
    const { encoder } = this;
    this.encoder = null;
    if (encoder) this.device.queue.submit([encoder.finish()]);
  }

  /** Throws away what was recorded. */
  drop(): void {
    this.forgetPass();
    this.encoder = null;
  }

  /** Writes data at once, after all that was recorded so far. */
  write(target: Buffer, offset: number, data: Uint8Array<ArrayBuffer>): void {
    this.submit();
    const { queue } = this.device;
    const whole = data.byteLength & ~3;
    if (whole) queue.writeBuffer(target.gpu, offset, data, 0, whole);
    if (whole < data.byteLength) {
      const tail = new Uint8Array(4);
      tail.set(data.subarray(whole));
      queue.writeBuffer(target.gpu, offset + whole, tail);
    }
  }

  private bindGroup(
    dispatch: Dispatch,
    args: readonly Buffer[],
    temporaries: readonly Buffer[],
    views: readonly GPUTextureView[],
  ): GPUBindGroup {
    const { bindGroups, operands, executable, uniform } = dispatch;
    const bound = operands.map((operand) =>
      typeof operand === "object"
        ? (views[operand.texture] as GPUTextureView)
        : ((operand < 0 ? temporaries[-1 - operand] : args[operand]) as Buffer),
    );
    let key = "";
    for (const one of bound) key += "slot" in one ? `${one.slot.id}:${one.bytes},` : `t${this.number(one)},`;
    const known = bindGroups.get(key);
    if (known) return known;
    const entries: GPUBindGroupEntry[] = executable.storage.map(({ binding }, i) => {
      const one = bound[i] as Buffer | GPUTextureView;
      return { binding, resource: "slot" in one ? { buffer: one.gpu, size: one.bytes } : one };
    });
    if (uniform) entries.push({ binding: executable.uniform ?? 0, resource: { buffer: uniform } });
    const made = this.device.createBindGroup({ layout: executable.layout, entries });
    if (bindGroups.size >= CACHED_BIND_GROUPS) bindGroups.clear();
    bindGroups.set(key, made);
    return made;
  }

  /** Never used twice, so that bind groups cannot be mistaken. */
  private number(view: GPUTextureView): number {
    const known = this.numbers.get(view) ?? this.views++;
    this.numbers.set(view, known);
    return known;
  }

  private encoding(): GPUCommandEncoder {
    this.encoder ??= this.device.createCommandEncoder();
    return this.encoder;
  }

  private endPass(): void {
    this.pass?.end();
    this.forgetPass();
  }

  private forgetPass(): void {
    this.pass = null;
    this.pipeline = null;
    this.bound = null;
  }

  private filledSource(): GPUBuffer {
    if (!this.ones) {
      const usage = GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
      this.ones = this.device.createBuffer({ size: FILL_BYTES, usage });
      this.device.queue.writeBuffer(this.ones, 0, new Uint8Array(FILL_BYTES).fill(0xff));
    }
    return this.ones;
  }
}
