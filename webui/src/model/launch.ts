/**
 * A kernel's launch metadata (tapml.kernel/1, docs/suite-format.md) as rows to show. Read leniently: what is
 * not understood is left out here and still shown as JSON.
 */

export interface BindingRow {
  binding: string;
  access: string;
  name: string;
  type: string;
  /** Which of the operator's tensors it holds: "input 0 float32[1, 384]". */
  holds: string;
}

export interface LaunchFacts {
  entryPoints: { name: string; file: string; workgroupSize: string; bindings: BindingRow[] }[];
  launches: { entryPoint: string; workgroups: string; workgroupSize: string }[];
  /** True when the launches are those of the shapes asked for, false when there are others too. */
  ofShapes: boolean;
  temporaries: number;
  features: string[];
  limits: { name: string; least: number | string }[];
}

type Fields = Record<string, unknown>;
type Shapes = readonly (readonly number[])[];

/** `shapes`: of the operator's tensors at one node, inputs then outputs; its dispatches are picked if there are any. */
export function launchFacts(bundle: unknown, shapes: Shapes = []): LaunchFacts {
  const root = fields(bundle);
  const requires = fields(root.requires);
  const roles = list(root.arguments).map((argument) => text(fields(argument).role));
  const all = list(root.dispatches).map(fields);
  const own = all.filter((dispatch) => JSON.stringify(dispatch.shapes) === JSON.stringify(shapes));
  const picked = own.length > 0 ? own : all;
  return {
    entryPoints: list(root.entry_points).map((value) => {
      const entry = fields(value);
      return {
        name: text(entry.name),
        file: text(entry.file),
        workgroupSize: extents(entry.workgroup_size),
        bindings: list(entry.bindings).map((binding, at) => bindingRow(fields(binding), at, roles)),
      };
    }),
    launches: picked.flatMap((dispatch) =>
      list(dispatch.launches).map((value) => {
        const launch = fields(value);
        return {
          entryPoint: text(launch.entry_point),
          workgroups: extents(launch.dispatch),
          workgroupSize: extents(launch.workgroup_size),
        };
      }),
    ),
    ofShapes: own.length > 0,
    temporaries: picked.reduce((sum, dispatch) => sum + list(dispatch.temporaries).length, 0),
    features: list(requires.features).map(text),
    limits: Object.entries(fields(requires.limits)).map(([name, least]) => ({
      name,
      least: typeof least === "number" ? least : text(least),
    })),
  };
}

function bindingRow(binding: Fields, at: number, roles: readonly string[]): BindingRow {
  let holds = "";
  if (typeof binding.argument === "number") {
    const role = roles[binding.argument] ?? "argument";
    // Counted within its role: the first output is output 0.
    const before = roles.slice(0, binding.argument).filter((other) => other === role).length;
    holds = `${role} ${before}`;
  } else if (binding.temporary !== undefined) holds = `temporary ${text(binding.temporary)}`;
  return {
    binding: text(binding.binding ?? at),
    access: text(binding.access),
    name: text(binding.name),
    type: text(binding.type),
    holds,
  };
}

function extents(value: unknown): string {
  const sizes = list(value);
  return sizes.length > 0 ? sizes.map(text).join(" × ") : text(value);
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
