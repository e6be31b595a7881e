/**
 * A kernel's launch metadata as rows to show. The bundle is the compiler's file: read leniently, and
 * what is not understood is still shown, as JSON.
 */

export interface EntryPointRow {
  name: string;
  file: string;
  workgroupSize: string;
  bindings: { binding: string; kind: string; name: string }[];
}

export interface LaunchFacts {
  entryPoints: EntryPointRow[];
  dispatches: { entryPoint: string; extents: string; workgroupSize: string; note: string }[];
  features: string[];
  limits: { name: string; least: number | string }[];
}

type Fields = Record<string, unknown>;

export function launchFacts(bundle: unknown): LaunchFacts {
  const root = fields(bundle);
  const requires = fields(root.requires);
  return {
    entryPoints: list(root.entry_points).map(entryPoint),
    dispatches: list(root.dispatches ?? root.launches).map(dispatch),
    features: list(requires.features).map(text),
    limits: Object.entries(fields(requires.limits)).map(([name, least]) => ({
      name,
      least: typeof least === "number" ? least : text(least),
    })),
  };
}

function entryPoint(value: unknown): EntryPointRow {
  const entry = fields(value);
  const info = fields(entry.info);
  const described = list(entry.bindings);
  const bindings = described.length > 0 ? described : list(info.arg_types);
  return {
    name: text(entry.name ?? info.name),
    file: text(entry.file),
    workgroupSize: extents(entry.workgroup_size),
    bindings: bindings.map((item, at) => binding(item, at)),
  };
}

function binding(value: unknown, at: number): EntryPointRow["bindings"][number] {
  if (typeof value === "string") return { binding: String(at), kind: value, name: "" };
  const item = fields(value);
  const kind = item.type ?? item.kind ?? item.access ?? item.role;
  return { binding: text(item.binding ?? at), kind: text(kind), name: text(item.name ?? item.value ?? "") };
}

function dispatch(value: unknown): LaunchFacts["dispatches"][number] {
  const item = fields(value);
  const size = item.dispatch ?? item.grid ?? item.extents;
  return {
    entryPoint: text(item.entry_point ?? item.name),
    extents: extents(size),
    workgroupSize: extents(item.workgroup_size),
    note: text(item.node ?? item.when ?? item.condition ?? ""),
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
