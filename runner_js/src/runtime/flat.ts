import type { Executable } from "../hal/executable";
import { paddedBytes } from "../hal/sizes";
import { describePair } from "../program/bytes";
import type { Sizes } from "../program/expressions";
import { evaluateLaunches } from "../program/launches";
import { texturesAt, textureTooLarge } from "../program/textures";
import { TapmlError } from "./error";
import type { Allocations } from "./memory";
import type { ReadyKernel } from "./pipelines";

/** Buffers by what `at` of a tensor begins with. Inputs and outputs change from call to call. */
export interface Buffers {
  weights: readonly GPUBuffer[];
  arena: readonly GPUBuffer[];
  state: readonly GPUBuffer[];
  input: GPUBuffer[];
  output: GPUBuffer[];
}

/** Bytes of buffer `of[index]`, whichever that is at the call. */
export interface Region {
  readonly of: readonly GPUBuffer[];
  readonly index: number;
  readonly offset: number;
  readonly bytes: number;
  /** Of a texture: it is bound in place of bytes. */
  readonly view?: GPUTextureView | undefined;
}

export interface FlatDevice {
  readonly device: GPUDevice;
  readonly allocations: Allocations;
}

/** Launches of a dispatch, by number, and where those of its temporaries lie that are not in an arena. */
export interface Launches {
  readonly numbers: ReadonlySet<number>;
  readonly kept: ReadonlyMap<number, GPUBuffer>;
}

/** What a dispatch belongs to. */
export interface Label {
  kernel: string;
  /** Of the model's program. */
  node: string;
  launch: number;
}

interface Group {
  executable: Executable;
  regions: readonly Region[];
  uniform: { offset: number; bytes: number } | null;
}

/**
 * Dispatches one after the other, as arrays, with their uniforms in one buffer: replaying them makes no object and
 * decides nothing.
 */
export class Flat {
  readonly pipelines: GPUComputePipeline[] = [];
  readonly bindGroups: GPUBindGroup[] = [];
  /** Workgroups along x, y and z, of each. */
  readonly grids: number[] = [];
  readonly labels: Label[] = [];
  readonly #groups: Group[] = [];
  /** Dispatches that use an input or an output, whose buffers may be others at the next call; with what is bound now. */
  readonly #changing: { dispatch: number; bound: GPUBuffer[] }[] = [];
  readonly #uniforms: { offset: number; data: Uint8Array<ArrayBuffer> }[] = [];
  #uniformBytes = 0;
  #uniform: GPUBuffer | null = null;

  constructor(
    private readonly on: FlatDevice,
    private readonly buffers: Buffers,
  ) {}

  get length(): number {
    return this.pipelines.length;
  }

  /**
   * `regions`: of the kernel's arguments, `given` of them, and then of its temporaries; `only`: without its other launches.
   * Throws a TapmlError.
   */
  add(
    kernel: ReadyKernel,
    sizes: Sizes,
    regions: readonly Region[],
    given: number,
    node: string,
    only?: Launches,
  ): void {
    const { limits } = this.on.device;
    const { launches, temporaries } = evaluateLaunches(kernel.variant, sizes);
    const textures = texturesAt(kernel.variant, sizes);
    for (const texture of textures) {
      const what = textureTooLarge(texture, limits);
      if (what) throw beyond(kernel, what);
    }
    const views = this.on.allocations.textures(textures);
    kernel.variant.launches.forEach(({ operands }, launch) => {
      if (only?.numbers.has(launch) === false) return;
      const executable = kernel.executables[launch] as Executable;
      const { grid, uniform } = launches[launch] as (typeof launches)[number];
      const most = limits.maxComputeWorkgroupsPerDimension;
      if (grid.some((workgroups) => workgroups > most)) {
        throw beyond(
          kernel,
          `dispatches [${grid}] workgroups, this device allows maxComputeWorkgroupsPerDimension ${most}`,
        );
      }
      if (grid.includes(0)) return;
      const bound = operands.map((operand) => {
        if ("argument" in operand) return regions[operand.argument] as Region;
        if ("texture" in operand)
          return { of: [], index: 0, offset: 0, bytes: 0, view: views[operand.texture] };
        const kept = only?.kept.get(operand.temporary);
        if (kept) return { of: [kept], index: 0, offset: 0, bytes: kept.size };
        const region = regions[given + operand.temporary] as Region;
        return { ...region, bytes: Math.min(region.bytes, paddedBytes(temporaries[operand.temporary] ?? 0)) };
      });
      for (const { bytes } of bound) {
        if (bytes <= limits.maxStorageBufferBindingSize) continue;
        const [wanted, allowed] = describePair(bytes, limits.maxStorageBufferBindingSize);
        throw beyond(kernel, `binds ${wanted}, this device allows maxStorageBufferBindingSize ${allowed}`);
      }
      this.pipelines.push(executable.pipeline);
      this.grids.push(...grid);
      this.labels.push({ kernel: kernel.kernel, node, launch });
      this.#groups.push({ executable, regions: bound, uniform: uniform && this.#place(uniform) });
    });
  }

  /** Makes the uniforms' buffer and all bind groups: nothing can be added any more. */
  seal(): void {
    const { device, allocations } = this.on;
    if (this.#uniformBytes) {
      const data = new Uint8Array(this.#uniformBytes);
      for (const { offset, data: part } of this.#uniforms) data.set(part, offset);
      this.#uniform = allocations.make(data.length, GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST);
      device.queue.writeBuffer(this.#uniform, 0, data);
    }
    this.#groups.forEach((group, dispatch) => {
      this.bindGroups.push(this.#bindGroup(group));
      const changing = group.regions.filter(
        ({ of }) => of === this.buffers.input || of === this.buffers.output,
      );
      if (changing.length) this.#changing.push({ dispatch, bound: this.#bound(group) });
    });
    this.#uniforms.length = 0;
  }

  /** Binds the inputs and outputs of this call; whether they are others than those of the last one. */
  rebind(): boolean {
    let changed = false;
    for (const one of this.#changing) {
      const group = this.#groups[one.dispatch] as Group;
      if (group.regions.every(({ of, index }, i) => of[index] === one.bound[i])) continue;
      one.bound = this.#bound(group);
      this.bindGroups[one.dispatch] = this.#bindGroup(group);
      changed = true;
    }
    return changed;
  }

  destroy(): void {
    if (this.#uniform) this.on.allocations.destroy(this.#uniform);
    this.#uniform = null;
  }

  #bound({ regions }: Group): GPUBuffer[] {
    return regions.map(({ of, index }) => of[index] as GPUBuffer);
  }

  #bindGroup({ executable, regions, uniform }: Group): GPUBindGroup {
    const entries: GPUBindGroupEntry[] = executable.storage.map(({ binding }, i) => {
      const { of, index, offset, bytes, view } = regions[i] as Region;
      return { binding, resource: view ?? { buffer: of[index] as GPUBuffer, offset, size: bytes } };
    });
    if (uniform && this.#uniform) {
      const { offset, bytes } = uniform;
      entries.push({
        binding: executable.uniform ?? 0,
        resource: { buffer: this.#uniform, offset, size: bytes },
      });
    }
    return this.on.device.createBindGroup({ layout: executable.layout, entries });
  }

  #place(data: Uint8Array<ArrayBuffer>): { offset: number; bytes: number } {
    const align = this.on.device.limits.minUniformBufferOffsetAlignment;
    const offset = Math.ceil(this.#uniformBytes / align) * align;
    this.#uniforms.push({ offset, data });
    this.#uniformBytes = offset + data.length;
    return { offset, bytes: data.length };
  }
}

function beyond({ kernel, variant }: ReadyKernel, what: string): TapmlError {
  const sentence = `kernel ${kernel} (variant ${variant.name}) ${what}`;
  return new TapmlError("unsupported", sentence, "call it with smaller sizes, or use another GPU");
}
