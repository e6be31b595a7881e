/** A kernel's launches as they are edited in a form: changes of its document's text, and of the WGSL that says the same. */

import { type Expression, printed } from "../../../runner_js/src/program/expressions";
import type { KernelBundle, KernelVariant } from "../api/types";
import { expressionOf } from "./expression-text";
import { grouped } from "./format";
import { withValue } from "./json-edit";

export interface Field {
  /** Unique in the form. */
  key: string;
  label: string;
  /** As it is in the document now. */
  text: string;
  /** The document's text, and a file's where it says the same, after a change. Throws a sentence. */
  change: (value: string) => { document: string; file?: { name: string; text: string } };
}

export interface LaunchGroup {
  name: string;
  fields: Field[];
}

const AXES = ["x", "y", "z"];

/** Of one variant. `files`: the WGSL by name as it is shown. Throws where the document is none. */
export function launchFields(
  document: string,
  variant: string,
  files: Readonly<Record<string, string>>,
): LaunchGroup[] {
  const bundle = JSON.parse(document) as KernelBundle;
  const at = bundle.variants.findIndex(({ name }) => name === variant);
  const found = bundle.variants[at];
  if (found === undefined) throw new Error(`there is no variant ${variant}`);
  const sizes = found.entry_points.map((entry, number): LaunchGroup => {
    return {
      name: `${entry.name}: workgroup size`,
      fields: AXES.map((axis, place) => ({
        key: `size ${number} ${axis}`,
        label: axis,
        text: String(entry.workgroup_size[place] ?? 1),
        change: (value) => {
          const size = [...entry.workgroup_size];
          size[place] = whole(value);
          const path = ["variants", at, "entry_points", number, "workgroup_size", place];
          const text = withWorkgroupSize(files[entry.file] ?? "", entry.name, size);
          return {
            document: withValue(document, path, size[place]),
            ...(text !== null && { file: { name: entry.file, text } }),
          };
        },
      })),
    };
  });
  const launches = found.launches.map((launch, number): LaunchGroup => {
    const base = ["variants", at, "launches", number];
    const grid = launch.grid.map(
      (extent, place): Field => ({
        key: `grid ${number} ${place}`,
        label: AXES[place] ?? "",
        text: printed(extent),
        change: (value) => ({ document: withValue(document, [...base, "grid", place], expressionOf(value)) }),
      }),
    );
    const uniforms = (launch.uniforms ?? []).map(
      (uniform, place): Field => ({
        key: `uniform ${number} ${place}`,
        label: `${uniform.name} (${uniform.dtype})`,
        text: printed(uniform.value),
        change: (value) => ({
          document: withValue(
            document,
            [...base, "uniforms", place, "value"],
            uniform.dtype === "float32" ? realOr(value) : expressionOf(value),
          ),
        }),
      }),
    );
    const name = found.launches.length > 1 ? `${number + 1}. ${launch.entry_point}` : launch.entry_point;
    return { name: `${name}: workgroups and uniforms`, fields: [...grid, ...uniforms] };
  });
  return [...sizes, ...launches];
}

function whole(text: string): number {
  if (!/^\s*[1-9]\d*\s*$/.test(text))
    throw new Error(`${text.trim() || "nothing"} is no whole number from 1 on`);
  return Number(text);
}

/** A number with or without a point, or an expression. */
function realOr(text: string): Expression | number {
  return /^\s*-?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*$/i.test(text) ? Number(text) : expressionOf(text);
}

/** The text with this size at an entry point; null where it does not say its size in numbers. */
export function withWorkgroupSize(wgsl: string, entry: string, size: readonly number[]): string | null {
  const before = sizeBefore(entry);
  return before.test(wgsl) ? wgsl.replace(before, `@workgroup_size(${size.join(", ")})`) : null;
}

/** What WebGPU promises of every device, where none tells its own. */
const PROMISED = {
  maxComputeInvocationsPerWorkgroup: 256,
  maxComputeWorkgroupSizeX: 256,
  maxComputeWorkgroupSizeY: 256,
  maxComputeWorkgroupSizeZ: 64,
  maxComputeWorkgroupsPerDimension: 65_535,
};

type Limit = keyof typeof PROMISED;

/**
 * Which sizes are more than a device can do, a sentence each; of grids those that are the same for all sizes of the model.
 * `devices`: by name their limits; none: what every device can do.
 */
export function overLimits(
  variant: KernelVariant,
  devices: readonly { name: string; limits: Readonly<Record<string, number>> }[],
): string[] {
  const found: string[] = [];
  const check = (limit: Limit, value: number, what: string) => {
    const small = devices.filter(({ limits }) => value > (limits[limit] ?? PROMISED[limit]));
    const least = Math.min(...small.map(({ limits }) => limits[limit] ?? PROMISED[limit]));
    // Tabs of one browser have the same limits.
    const names = [...new Set(small.map(({ name }) => name))].join(", ");
    if (small.length > 0) found.push(`${what}: ${names} can do ${grouped(least)} (${limit})`);
    else if (devices.length === 0 && value > PROMISED[limit])
      found.push(`${what}: not every device can do more than ${grouped(PROMISED[limit])} (${limit})`);
  };
  for (const { name, workgroup_size } of variant.entry_points) {
    const all = workgroup_size.reduce((product, extent) => product * extent, 1);
    check("maxComputeInvocationsPerWorkgroup", all, `${name} has ${grouped(all)} invocations a workgroup`);
    AXES.forEach((axis, place) => {
      const size = workgroup_size[place] ?? 1;
      const limit = `maxComputeWorkgroupSize${axis.toUpperCase()}` as Limit;
      check(limit, size, `${name} has workgroups of ${grouped(size)} along ${axis}`);
    });
  }
  for (const { entry_point, grid } of variant.launches) {
    grid.forEach((extent, place) => {
      if (typeof extent !== "number") return;
      const what = `${entry_point} has ${grouped(extent)} workgroups along ${AXES[place]}`;
      check("maxComputeWorkgroupsPerDimension", extent, what);
    });
  }
  return found;
}

/** What the WGSL of a variant says otherwise than the document, in a sentence; empty where they agree. */
export function sizeConflict(variant: KernelVariant, files: Readonly<Record<string, string>>): string {
  for (const { name, file, workgroup_size } of variant.entry_points) {
    const text = files[file] ?? "";
    const same = withWorkgroupSize(text, name, workgroup_size);
    const read = same === null ? null : sizeIn(text, name);
    if (read !== null && AXES.some((_, place) => (read[place] ?? 1) !== (workgroup_size[place] ?? 1)))
      return `${file} says @workgroup_size(${read.join(", ")}), the document ${workgroup_size.join(", ")}`;
  }
  return "";
}

function sizeIn(wgsl: string, entry: string): number[] | null {
  const found = sizeBefore(entry).exec(wgsl);
  return found === null
    ? null
    : (found[1] ?? "")
        .split(",")
        .filter((part) => part.trim() !== "")
        .map(Number);
}

function sizeBefore(entry: string): RegExp {
  const name = entry.replace(/\W/g, "");
  return new RegExp(
    `@workgroup_size\\s*\\(([\\d\\s,]*)\\)(?=(?:\\s|@\\w+(?:\\([^)]*\\))?)*fn\\s+${name}\\b)`,
  );
}
