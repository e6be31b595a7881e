/** What came out, beside what was reported. */
import type { ErrorReport } from "../src/protocol/messages";
import type { Numbers, Outcome, Repro, Reproduced } from "./types";

/** The outcome of a test that did not run to its end. */
export function withoutRun(error: ErrorReport, device: Outcome["device"] = null): Outcome {
  const verdict = error.kind === "unsupported" ? "unsupported" : "error";
  return {
    verdict,
    message: error.message,
    variant: null,
    outputs: [],
    error,
    seconds: {},
    maps: [],
    device,
  };
}

/** An outcome with its numbers over all outputs, as results are reported. */
export function numbersOf({ verdict, message, variant, outputs, seconds, error }: Outcome): Numbers {
  const sum = (key: "mismatched" | "unbounded" | "tied" | "total" | "nan" | "inf") =>
    outputs.reduce((total, output) => total + output[key], 0);
  const most = (key: "max_abs_error" | "max_rel_error" | "max_ulp") =>
    outputs.length ? Math.max(...outputs.map((output) => output[key])) : null;
  /** Of the first output that failed, else of the first that has one. */
  const element = (key: "first" | "worst") => {
    const failed = outputs.findIndex((output) => output.mismatched > 0 && output[key]);
    const output = failed < 0 ? outputs.findIndex((one) => one[key]) : failed;
    const found = outputs[output]?.[key];
    return found ? { output, ...found } : null;
  };
  return {
    ...{ verdict, message, variant, seconds, error, diagnostics: error?.diagnostics ?? [] },
    ...{ mismatched: sum("mismatched"), unbounded: sum("unbounded"), tied: sum("tied") },
    ...{ total: sum("total"), nan: sum("nan"), inf: sum("inf") },
    ...{
      max_abs_error: most("max_abs_error"),
      max_rel_error: most("max_rel_error"),
      max_ulp: most("max_ulp"),
    },
    ...{ first: element("first"), worst: element("worst") },
  };
}

/** Did the GPU not survive it where it was reported? Then it is not run unasked. */
export function lostItsDevice({ report }: Repro): boolean {
  if (report?.result.verdict !== "error") return false;
  const { error, message, diagnostics } = report.result;
  if (error) return error.kind === "device-lost";
  return (
    !diagnostics.length && /device (is |was )?lost|lost the device|did not end|hung|crashed/i.test(message)
  );
}

/** What this outcome says about the report, in plain words. */
export function statement(report: Repro["report"], here: Numbers): { reproduced: Reproduced; text: string } {
  if (!report)
    return { reproduced: "unreported", text: "This file holds no reported result to compare with." };
  const { result } = report;
  if (here.verdict === "unsupported" && result.verdict !== "unsupported") {
    return { reproduced: "unsupported", text: "Not reproduced here: this device cannot run the kernel." };
  }
  if (here.error?.kind === "fetch") {
    return { reproduced: "not-run", text: "Not run here, for the test did not arrive whole." };
  }
  if (here.verdict === "pass" && result.verdict === "pass")
    return { reproduced: "yes", text: "Passes here, as reported." };
  if (here.verdict === "pass") return { reproduced: "no", text: "Not reproduced here: passes." };
  // Whatever the values are: it depends on the bounds alone.
  if (here.verdict === "unbounded" && result.verdict === "unbounded") {
    return { reproduced: "yes", text: "Unbounded here too: another device may give anything there." };
  }
  const how = difference(result, here);
  if (how) return { reproduced: "different", text: `Fails differently here: ${how}.` };
  const same = here.verdict === "fail" && JSON.stringify(evidence(result)) === JSON.stringify(evidence(here));
  return { reproduced: "yes", text: `Reproduced here too${same ? ", with exactly the same numbers" : ""}.` };
}

function evidence({ mismatched, nan, inf, max_abs_error, first, worst }: Numbers) {
  const elements = [first, worst].map(
    (found) => found && [found.output, found.index, found.got, found.expected],
  );
  return [mismatched, nan, inf, max_abs_error, ...elements];
}

/** How two failures differ in kind; null where they are alike. */
function difference(reported: Numbers, here: Numbers): string | null {
  if (reported.verdict !== here.verdict) return `verdict ${here.verdict}, reported was ${reported.verdict}`;
  if (here.verdict === "error") {
    const kinds = [reported, here].map(
      ({ error, diagnostics }) => error?.kind ?? (diagnostics.length ? "compile" : null),
    );
    return kinds[0] && kinds[1] && kinds[0] !== kinds[1]
      ? `error of ${kinds[1]}, reported was ${kinds[0]}`
      : null;
  }
  if (here.verdict !== "fail") return null;
  for (const [key, name] of [
    ["nan", "NaN"],
    ["inf", "Inf"],
  ] as const) {
    if (!reported[key] !== !here[key])
      return `${here[key] || "no"} ${name}, reported ${reported[key] || "none"}`;
  }
  const ratio = here.mismatched / (reported.mismatched || 1);
  if (ratio <= 10 && ratio >= 0.1) return null;
  return `${here.mismatched} elements outside the tolerance, reported ${reported.mismatched}`;
}
