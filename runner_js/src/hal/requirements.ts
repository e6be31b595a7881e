import type { Requires } from "../protocol/messages";
import { describePair } from "./sizes";

/** Limits that grow more capable as they get smaller. */
const LESS_IS_MORE = /^min/;
const IN_BYTES = /(?:Buffer|Binding|Storage)Size$/;

/** What `requires` asks beyond this device, as one sentence; null when the device will do. */
export function unmetRequirement(
  requires: Requires,
  features: readonly string[],
  limits: Readonly<Record<string, number>>,
): string | null {
  const unmet = requires.features
    .filter((feature) => !features.includes(feature))
    .map((feature) => `needs the feature ${feature}, which this device lacks`);
  for (const [name, wanted] of Object.entries(requires.limits)) {
    const allowed = limits[name];
    // A limit this browser does not know yet cannot be checked ahead: error scopes will tell.
    if (allowed === undefined) continue;
    if (LESS_IS_MORE.test(name) ? allowed > wanted : allowed < wanted) {
      const [least, most] = IN_BYTES.test(name) ? describePair(wanted, allowed) : [wanted, allowed];
      unmet.push(`needs ${name} ${least}, this device allows ${most}`);
    }
  }
  return unmet.length ? unmet.join("; ") : null;
}
