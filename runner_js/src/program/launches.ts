/** What a kernel's expressions come to at one call, in the runner and in exported pages alike. */
import type { Binding, EntryPoint, Uniform, Variant } from "../protocol/messages";
import { extent, type Sizes } from "./expressions";

/** What a launch's operands are bound to, in their order. */
export function storageBindings({ bindings }: Pick<EntryPoint, "bindings">): Binding[] {
  return bindings.filter(({ access }) => access !== "uniform").sort((a, b) => a.binding - b.binding);
}

/** Bytes of each temporary, and for each launch its workgroups along x, y, z and its uniform. Throws an ExpressionError. */
export function evaluateLaunches(
  { temporaries, launches }: Pick<Variant, "temporaries" | "launches">,
  sizes: Sizes,
) {
  return {
    temporaries: temporaries.map((bytes, i) => extent(bytes, sizes, `temporaries[${i}]`)),
    launches: launches.map(({ grid, uniforms }, i) => {
      const along = (axis: number) => extent(grid[axis], sizes, `launches[${i}].grid[${axis}]`);
      const workgroups: [number, number, number] = [along(0), along(1), along(2)];
      return { grid: workgroups, uniform: uniforms.length ? uniformOf(uniforms, sizes) : null };
    }),
  };
}

/** The uniform of one launch: its numbers, four bytes each. */
export function uniformOf(uniforms: readonly Uniform[], sizes: Sizes): Uint8Array<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(4 * uniforms.length));
  uniforms.forEach(({ name, dtype, value }, i) => {
    const number = (least: number, most: number) => extent(value, sizes, `uniform ${name}`, least, most);
    if (dtype === "uint32") view.setUint32(4 * i, number(0, 2 ** 32 - 1), true);
    else if (dtype === "int32") view.setInt32(4 * i, number(-(2 ** 31), 2 ** 31 - 1), true);
    else view.setFloat32(4 * i, typeof value === "number" ? value : number(-(2 ** 53), 2 ** 53), true);
  });
  return new Uint8Array(view.buffer);
}
