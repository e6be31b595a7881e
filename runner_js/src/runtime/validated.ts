import type { CompiledModel, Validation } from "../compiled/generated/model";
import { browserName } from "../platform/browser_name";
import { TapmlError } from "./error";

const MOST_NAMED = 3;

/** What became of the kernels in this browser is in the model: refuses or warns where one is not known to be right here. */
export function checkValidated(
  { kernels, validation }: CompiledModel,
  unvalidated: "refuse" | "warn" | "ignore",
): void {
  if (!["refuse", "warn", "ignore"].includes(unvalidated)) {
    throw new TapmlError("input", `unvalidated is ${unvalidated}`, "give refuse, warn or ignore");
  }
  if (unvalidated === "ignore") return;
  const here = withoutVersion(whereThisRuns().name);
  const there = validation.filter(({ device }) => familyOf(device) === here);
  const missing = kernels.map(({ kernel }) => kernel).filter((kernel) => !passed(kernel, there));
  if (!missing.length) return;
  const wrong = missing.filter((kernel) => verdictsOf(kernel, there).some(isWrong));
  const named = wrong.length ? wrong : missing;
  const more =
    named.length > MOST_NAMED ? `, ${named.slice(0, MOST_NAMED).join(", ")}, ...` : `, ${named.join(", ")},`;
  const some = `${named.length} of ${kernels.length} kernels${more}`;
  const error = wrong.length
    ? new TapmlError(
        "unvalidated",
        `${some} failed when they were validated on ${here}: what the model gives is not to be trusted`,
        "mend them, validate the suite and build it again",
      )
    : new TapmlError(
        "unvalidated",
        `${some} are not validated on ${here}`,
        "build it with `tapml build --device` and this browser, or validate the suite there and build it again",
      );
  if (unvalidated === "refuse") throw error;
  console.warn(error.message);
}

/** Somewhere, and wrong nowhere. */
function passed(kernel: string, validations: readonly Validation[]): boolean {
  const verdicts = verdictsOf(kernel, validations);
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
