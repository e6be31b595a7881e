/** A kernel's variants and how each is launched (tapml.kernel/4, docs/suite-format.md), in words. */

import { type Expression, printed } from "../../../runner_js/src/program/expressions";
import type { KernelBundle, KernelVariant } from "../api/types";
import { grouped } from "./format";

const NOTHING: KernelVariant = {
  name: "",
  requires: { features: [], limits: {} },
  entry_points: [],
  launches: [],
  temporaries: [],
};

/** The variant that a file belongs to; without one, the last, which asks least of a device. */
export function variantOf({ variants }: KernelBundle, file: string | undefined): KernelVariant {
  const found = variants.find(({ entry_points }) => entry_points.some((entry) => entry.file === file));
  return found ?? variants.at(-1) ?? NOTHING;
}

type EntryPoint = KernelVariant["entry_points"][number];

/**
 * What each binding of an entry point holds: "output 0", counted within its role, "temporary 1", "texture 0" with what that is, "output 0, begun as input
 * 1" where it overwrites an input; nothing for a uniform.
 */
export function held(
  bundle: KernelBundle,
  { launches, textures = [] }: KernelVariant,
  entry: EntryPoint,
): string[] {
  const operands = launches.find(({ entry_point }) => entry_point === entry.name)?.operands ?? [];
  const roles = bundle.arguments.map(({ role }) => role);
  // Operands go to the other bindings, in the order of their numbers.
  const storage = entry.bindings
    .filter(({ access }) => access !== "uniform")
    .sort((a, b) => a.binding - b.binding);
  return entry.bindings.map((binding) => {
    const operand = operands[storage.indexOf(binding)];
    if (operand === undefined) return "";
    if ("temporary" in operand) return `temporary ${operand.temporary}`;
    if ("texture" in operand) {
      const { dimension, format, size } = textures[operand.texture] ?? {
        dimension: "",
        format: "",
        size: [],
      };
      return `texture ${operand.texture}, ${dimension} ${format} ${extents(size)}`;
    }
    const named = (argument: number) => {
      const role = roles[argument] ?? "argument";
      return `${role} ${roles.slice(0, argument).filter((other) => other === role).length}`;
    };
    const before = bundle.arguments[operand.argument]?.overwrites ?? null;
    return named(operand.argument) + (before === null ? "" : `, begun as ${named(before)}`);
  });
}

/** "≥ 1,024"; a limit that begins with "min" is met by less. */
export function limitText(name: string, bound: number): string {
  return `${name.startsWith("min") ? "≤" : "≥"} ${grouped(bound)}`;
}

export function extents(sizes: readonly Expression[]): string {
  return sizes.map((size) => printed(size)).join(" × ");
}
