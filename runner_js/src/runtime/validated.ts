import type { CompiledKernel, CompiledModel, Validation } from "../compiled/generated/model";
import { browserName } from "../platform/browser_name";
import { TapmlError } from "./error";

const MOST_NAMED = 3;

/** Why the model is not known to be right in this browser, by what became of its kernels there; null where it is. */
export function doubtOf(
  { kernels, validation }: CompiledModel,
  unvalidated: "refuse" | "warn" | "ignore",
): TapmlError | null {
  if (!["refuse", "warn", "ignore"].includes(unvalidated)) {
    throw new TapmlError("input", `unvalidated is ${unvalidated}`, "give refuse, warn or ignore");
  }
  if (unvalidated === "ignore") return null;
  const here = withoutVersion(whereThisRuns().name);
  const there = validation.filter(({ device }) => familyOf(device) === here);
  const verdicts = (one: CompiledKernel) => verdictsOf(one.kernel, there);
  const missing = kernels.filter((one) => !passed(verdicts(one)));
  const wrong = missing.filter((one) => verdicts(one).some(isWrong));
  const unknown = missing.filter((one) => !verdicts(one).includes("unsupported"));
  const some = (named: readonly CompiledKernel[]) => {
    const names = named.slice(0, MOST_NAMED).map(({ kernel }) => kernel);
    const more = named.length > MOST_NAMED ? ", ..." : ",";
    return `${named.length} of ${kernels.length} kernels, ${names.join(", ")}${more}`;
  };
  const doubt = (sentence: string, fix: string) => new TapmlError("unvalidated", sentence, fix);
  if (wrong.length) {
    return doubt(
      `${some(wrong)} failed when they were validated on ${here}: what the model gives is not to be trusted`,
      "mend them, validate the suite and build it again",
    );
  }
  if (unknown.length) {
    return doubt(
      `${some(unknown)} are not validated on ${here}`,
      "build it with `tapml build --device` and this browser, or validate the suite there and build it again",
    );
  }
  if (!missing.length) return null;
  return doubt(
    `${some(missing)} were unsupported when they were validated on ${here}, by a device without ${neededBy(missing)}`,
    "validate the suite on a device like this one and build it again",
  );
}

/** What every device needs that is to run them, by name. */
function neededBy(kernels: readonly CompiledKernel[]): string {
  // The last variant is the one that asks least.
  const features = kernels.flatMap(({ variants }) => variants.at(-1)?.requires.features ?? []);
  return [...new Set(features)].sort().join(", ") || "what they need";
}

/** Somewhere, and wrong nowhere. */
function passed(verdicts: readonly (string | undefined)[]): boolean {
  return verdicts.includes("pass") && !verdicts.some(isWrong);
}

function verdictsOf(kernel: string, validations: readonly Validation[]): (string | undefined)[] {
  return validations.flatMap(({ kernels }) => (Object.hasOwn(kernels, kernel) ? [kernels[kernel]] : []));
}

function isWrong(verdict: string | undefined): boolean {
  return verdict === "fail" || verdict === "error";
}

/** Where this runs: "browser", "node" or "deno", and what people call it. */
export function whereThisRuns(): { runtime: string; name: string; userAgent: string } {
  const { userAgent = "", userAgentData } = (globalThis.navigator ?? {}) as Navigator & {
    userAgentData?: { brands?: { brand: string }[] };
  };
  if ("Deno" in globalThis) return { runtime: "deno", name: "deno", userAgent };
  if (!userAgent || /^Node/.test(userAgent)) return { runtime: "node", name: "node", userAgent };
  const brands = (userAgentData?.brands ?? []).map(({ brand }) => brand);
  return { runtime: "browser", name: browserName(userAgent, brands), userAgent };
}

function familyOf({ name, runtime }: Validation["device"]): string {
  return runtime === "node" || runtime === "deno" ? runtime : withoutVersion(name);
}

function withoutVersion(name: string): string {
  // Chrome is the Chromium of its version.
  return name.replace(/ \d[\d.]*/, "").replace(/^Chrome\b/, "Chromium");
}
