import { checkedExpression, printed } from "../../../runner_js/src/program/expressions";
import { grouped } from "./format";

/**
 * A kernel's variants and how each is launched (tapml.kernel/3, docs/suite-format.md) as rows to show. Read leniently:
 * what is not understood is left out here and still shown as JSON.
 */

export interface BindingRow {
  binding: string;
  access: string;
  name: string;
  type: string;
  /** Which of the operator's tensors it holds: "input 0 float32[1, 384]". */
  holds: string;
}

/** One implementation of a kernel. */
export interface LaunchFacts {
  variant: string;
  entryPoints: { name: string; file: string; workgroupSize: string; bindings: BindingRow[] }[];
  launches: { entryPoint: string; workgroups: string; workgroupSize: string }[];
  temporaries: number;
  features: string[];
  /** "≥ 1,024"; a limit that begins with "min" is met by less. */
  limits: { name: string; bound: string }[];
}

type Fields = Record<string, unknown>;

/** All variants, in the order in which a device tries them. */
export function launchFacts(bundle: unknown): LaunchFacts[] {
  const root = fields(bundle);
  const roles = list(root.arguments).map((argument) => text(fields(argument).role));
  return list(root.variants).map((value) => {
    const variant = fields(value);
    const requires = fields(variant.requires);
    const launches = list(variant.launches).map(fields);
    const sizeOf = (entryPoint: unknown) =>
      extents(
        list(variant.entry_points)
          .map(fields)
          .find(({ name }) => name === entryPoint)?.workgroup_size,
      );
    return {
      variant: text(variant.name),
      entryPoints: list(variant.entry_points).map((point) => {
        const entry = fields(point);
        return {
          name: text(entry.name),
          file: text(entry.file),
          workgroupSize: extents(entry.workgroup_size),
          bindings: bindingRows(
            list(entry.bindings).map(fields),
            list(launches.find((launch) => launch.entry_point === entry.name)?.operands).map(fields),
            roles,
          ),
        };
      }),
      launches: launches.map(({ entry_point, grid }) => {
        return {
          entryPoint: text(entry_point),
          workgroups: extents(grid),
          workgroupSize: sizeOf(entry_point),
        };
      }),
      temporaries: list(variant.temporaries).length,
      features: list(requires.features).map(text),
      limits: Object.entries(fields(requires.limits)).map(([name, bound]) => ({
        name,
        bound:
          typeof bound === "number" ? `${name.startsWith("min") ? "≤" : "≥"} ${grouped(bound)}` : text(bound),
      })),
    };
  });
}

const NOTHING: LaunchFacts = {
  variant: "",
  entryPoints: [],
  launches: [],
  temporaries: 0,
  features: [],
  limits: [],
};

/** The variant that a file belongs to; without one, the last, which asks least of a device. */
export function variantOf(variants: readonly LaunchFacts[], file: string | undefined): LaunchFacts {
  const found = variants.find((facts) => facts.entryPoints.some((entry) => entry.file === file));
  return found ?? variants.at(-1) ?? NOTHING;
}

/** Operands go to the storage bindings, in the order of their numbers. */
function bindingRows(
  bindings: readonly Fields[],
  operands: readonly Fields[],
  roles: readonly string[],
): BindingRow[] {
  const storage = bindings
    .filter(({ access }) => access !== "uniform")
    .sort((a, b) => Number(a.binding) - Number(b.binding));
  return bindings.map((binding) => {
    const operand = operands[storage.indexOf(binding)] ?? {};
    let holds = "";
    if (typeof operand.argument === "number") {
      const role = roles[operand.argument] ?? "argument";
      // Counted within its role: the first output is output 0.
      const before = roles.slice(0, operand.argument).filter((other) => other === role).length;
      holds = `${role} ${before}`;
    } else if (operand.temporary !== undefined) holds = `temporary ${text(operand.temporary)}`;
    return {
      binding: text(binding.binding),
      access: text(binding.access),
      name: text(binding.name),
      type: text(binding.type),
      holds,
    };
  });
}

function extents(value: unknown): string {
  const sizes = list(value);
  return sizes.length > 0 ? sizes.map(expression).join(" × ") : text(value);
}

/** Of what was not checked before. */
function expression(value: unknown): string {
  try {
    return printed(checkedExpression(value));
  } catch {
    return text(value);
  }
}

function fields(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function text(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
