import type { Requires } from "../protocol/messages";
import { describePair } from "./bytes";

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

/** The first variant that a device can run: they are ordered, the one that asks most first. Where there is none, why. */
export function firstFitting<Variant extends { name: string; requires: Requires }>(
  variants: readonly Variant[],
  features: readonly string[],
  limits: Readonly<Record<string, number>>,
): { variant: Variant | null; why: string } {
  let why = "";
  for (const variant of variants) {
    const unmet = unmetRequirement(variant.requires, features, limits);
    if (unmet === null) return { variant, why: "" };
    why = variants.length > 1 ? `even its least demanding variant, ${variant.name}, ${unmet}` : unmet;
  }
  return { variant: null, why };
}
