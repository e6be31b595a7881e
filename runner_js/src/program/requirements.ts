import type { AdapterInfo, Requires } from "../protocol/messages";
import { describePair } from "./bytes";
import { deviceClasses } from "./device_class";

/** Limits that grow more capable as they get smaller; and the size that subgroups never exceed. */
const LESS_IS_MORE = /^min|^subgroupMaxSize$/;
const IN_BYTES = /(?:Buffer|Binding|Storage)Size$/;

/**
 * What `requires` asks beyond a device, as one sentence; null when the device will do. A limit that a browser does not know
 * yet cannot be checked ahead: error scopes will tell.
 */
export function unmetRequirement(
  requires: Requires,
  features: readonly string[],
  limits: Readonly<Record<string, number>>,
): string | null {
  const unmet = requires.features
    .filter((feature) => !features.includes(feature))
    .map((feature) => `needs the feature ${feature}, which this device lacks`);
  for (const [name, wanted] of Object.entries(requires.limits)) {
    const allowed = limits[name] ?? wanted;
    if (LESS_IS_MORE.test(name) ? allowed > wanted : allowed < wanted) {
      const [least, most] = IN_BYTES.test(name) ? describePair(wanted, allowed) : [wanted, allowed];
      unmet.push(`needs ${name} ${least}, this device allows ${most}`);
    }
  }
  return unmet.join("; ") || null;
}

/** What is known of a device that kernels run on. */
export interface Device {
  readonly adapter: AdapterInfo;
  readonly features: readonly string[];
  readonly limits: Readonly<Record<string, number>>;
}

type Expected = Readonly<Record<string, number>>;

interface Choosable {
  name: string;
  requires: Requires;
  expected?: Expected | null;
}

/**
 * Of the variants that a device can run, the one that is expected to take the least time there: by the closest of its
 * classes that all of them say something of. Where there is none, the first: they are ordered, the one that asks most
 * first. Where the device can run none, why.
 */
export function bestFitting<Variant extends Choosable>(
  variants: readonly Variant[],
  device: Device,
): { variant: Variant | null; why: string } {
  const { fitting, why } = fittingVariants(variants, device);
  const [first] = fitting;
  if (first === undefined) return { variant: null, why };
  if (fitting.length === 1 || !first.expected) return { variant: first, why: "" };
  const known = classThatTells(fitting, deviceClasses(device.adapter));
  if (known === undefined) return { variant: first, why: "" };
  const time = ({ expected }: Variant) => timeOf(expected, known);
  return { variant: fitting.reduce((best, one) => (time(one) < time(best) ? one : best)), why: "" };
}

/** Those that a device can run, in their order, and why not the last that it cannot. */
export function fittingVariants<Variant extends Choosable>(
  variants: readonly Variant[],
  { features, limits }: Device,
): { fitting: Variant[]; why: string } {
  let why = "";
  const fitting: Variant[] = [];
  for (const variant of variants) {
    const unmet = unmetRequirement(variant.requires, features, limits);
    if (unmet === null) fitting.push(variant);
    else why = variants.length > 1 ? `even its least demanding variant, ${variant.name}, ${unmet}` : unmet;
  }
  return { fitting, why };
}

/** The first of these classes that all of the variants say something of. */
export function classThatTells(
  variants: readonly Choosable[],
  classes: readonly string[],
): string | undefined {
  return classes.find((name) => variants.every(({ expected }) => timeOf(expected, name)));
}

/** Microseconds that are expected on a class; 0 where nothing is said. */
export function timeOf(expected: Expected | null | undefined, name: string): number {
  return expected && Object.hasOwn(expected, name) ? (expected[name] ?? 0) : 0;
}
