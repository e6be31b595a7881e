import { describe, expect, it } from "vitest";
import { judge } from "../src/compare/compare";
import type { Comparison } from "../src/protocol/messages";
import type { Numbers, Outcome, Repro } from "./types";
import { lostItsDevice, numbersOf, statement, withoutRun } from "./verdict";

const ELEMENT = { output: 0, index: [1], expected: 1, got: 2, bound: 0 };

function numbers(change: Partial<Numbers> = {}): Numbers {
  const failed = (change.verdict ?? "fail") === "fail";
  const counts = failed
    ? { mismatched: 3, first: ELEMENT, worst: ELEMENT }
    : { mismatched: 0, first: null, worst: null };
  return {
    ...{ verdict: "fail", message: "", variant: "256", total: 10, nan: 0, inf: 0, ...counts },
    ...{ unbounded: 0, tied: 0 },
    ...{ max_abs_error: 1, max_rel_error: 1, max_ulp: 9, seconds: {}, error: null, diagnostics: [] },
    ...change,
  };
}

const report = (change: Partial<Numbers> = {}) =>
  ({ created: "2026", result: numbers(change) }) as Repro["report"];
const error = (kind: string) => ({ verdict: "error", error: { kind } }) as Partial<Numbers>;

describe("the statement", () => {
  it.each([
    ["no report", null, numbers(), "unreported", "no reported result"],
    ["the same numbers", report(), numbers(), "yes", "Reproduced here too, with exactly the same numbers."],
    ["other numbers", report(), numbers({ mismatched: 5 }), "yes", "Reproduced here too."],
    ["a pass", report(), numbers({ verdict: "pass" }), "no", "Not reproduced here: passes."],
    [
      "a pass after a pass",
      report({ verdict: "pass" }),
      numbers({ verdict: "pass" }),
      "yes",
      "Passes here, as reported.",
    ],
    [
      "a failure after a pass",
      report({ verdict: "pass" }),
      numbers(),
      "different",
      "verdict fail, reported was pass",
    ],
    ["NaN that were none", report(), numbers({ nan: 2 }), "different", "2 NaN, reported none"],
    ["no Inf where there were", report({ inf: 4 }), numbers(), "different", "no Inf, reported 4"],
    ["NaN as reported", report({ nan: 1 }), numbers({ nan: 3 }), "yes", "Reproduced here too."],
    [
      "many more",
      report(),
      numbers({ mismatched: 31 }),
      "different",
      "31 elements outside the tolerance, reported 3",
    ],
    ["an error", report(), numbers(error("validation")), "different", "verdict error, reported was fail"],
    ["the same error", report(error("compile")), numbers(error("compile")), "yes", "Reproduced here too."],
    [
      "another error",
      report(error("compile")),
      numbers(error("device-lost")),
      "different",
      "error of device-lost",
    ],
    [
      "a device too small",
      report(),
      numbers({ verdict: "unsupported" }),
      "unsupported",
      "cannot run the kernel",
    ],
    [
      "what WGSL promises nothing for",
      report({ verdict: "unbounded", unbounded: 3 }),
      numbers({ verdict: "unbounded", unbounded: 3, max_abs_error: 7 }),
      "yes",
      "Unbounded here too",
    ],
    [
      "what is wrong here and was only unbounded",
      report({ verdict: "unbounded", unbounded: 3 }),
      numbers(),
      "different",
      "verdict fail, reported was unbounded",
    ],
    [
      "still none",
      report({ verdict: "unsupported" }),
      numbers({ verdict: "unsupported" }),
      "yes",
      "Reproduced here too.",
    ],
  ] as const)("of %s", (_, reported, here, reproduced, text) => {
    const said = statement(reported, here);
    expect(said.reproduced).toBe(reproduced);
    expect(said.text).toContain(text);
  });

  it("takes a report of diagnostics alone for an error of compilation", () => {
    const diagnostics = [
      { severity: "error", line: 1, column: 1, message: "m", source: "", file: "f" },
    ] as const;
    const reported = report({ verdict: "error", diagnostics: [...diagnostics] });
    expect(statement(reported, numbers(error("compile"))).reproduced).toBe("yes");
    expect(statement(reported, numbers(error("validation"))).reproduced).toBe("different");
  });
});

describe("a test that lost its device where it was reported", () => {
  const repro = (change: Partial<Numbers>) => ({ report: report(change) }) as Repro;
  it.each([
    [{ verdict: "error", error: { kind: "device-lost", lost_reason: "hung" } }, true],
    [{ verdict: "error", message: "kernel softmax did not end within 30 s: the GPU device is lost" }, true],
    [{ verdict: "error", message: "device lost: chromium: its GPU process crashed" }, true],
    [{ verdict: "error", error: { kind: "compile" }, message: "f.wgsl:1: unresolved 'hung'" }, false],
    [{ verdict: "error", message: "blob x could not be fetched" }, false],
    [{ verdict: "fail", message: "device lost" }, false],
  ] as [Partial<Numbers>, boolean][])("%j: %s", (change, expected) => {
    expect(lostItsDevice(repro(change))).toBe(expected);
  });

  it("is none without a report", () => expect(lostItsDevice({ report: null } as Repro)).toBe(false));
});

describe("the numbers of an outcome", () => {
  const compared = (change: Partial<Comparison>): Comparison => ({
    ...{
      total: 4,
      mismatched: 0,
      unbounded: 0,
      tied: 0,
      nan: 0,
      inf: 0,
      max_abs_error: 0,
      max_rel_error: 0,
      max_ulp: 0,
      ulp_histogram: [],
      first: null,
      worst: null,
    },
    ...change,
  });
  const outcome = (...outputs: Comparison[]): Outcome => ({
    ...{
      verdict: "fail",
      message: "m",
      variant: "v",
      outputs,
      error: null,
      seconds: {},
      maps: [],
      device: null,
    },
  });
  const at = (index: number) => ({ index: [index], expected: 0, got: 1, bound: 0 });

  it("are those of all outputs, elements of the first that failed", () => {
    const found = numbersOf(
      outcome(
        compared({ max_abs_error: 3, max_ulp: 1, worst: at(7) }),
        compared({ mismatched: 2, nan: 1, first: at(1), worst: at(2) }),
        compared({ mismatched: 1, inf: 1, max_rel_error: 5, first: at(3), worst: at(3) }),
      ),
    );
    expect(found).toMatchObject({
      total: 12,
      mismatched: 3,
      nan: 1,
      inf: 1,
      max_abs_error: 3,
      max_rel_error: 5,
      max_ulp: 1,
    });
    expect(found.first).toEqual({ output: 1, ...at(1) });
    expect(found.worst).toEqual({ output: 1, ...at(2) });
  });

  it("are none where nothing was compared", () => {
    expect(numbersOf(outcome())).toMatchObject({
      total: 0,
      max_abs_error: null,
      max_ulp: null,
      first: null,
      worst: null,
    });
  });

  it("count what is unbounded and what is tied", () => {
    const found = numbersOf(outcome(compared({ unbounded: 2, tied: 1 }), compared({ unbounded: 3 })));
    expect(found).toMatchObject({ unbounded: 5, tied: 1 });
  });
});

describe("the verdict on outputs", () => {
  const compared = (change: Partial<Comparison>) =>
    ({ total: 4, mismatched: 0, unbounded: 0, ...change }) as Comparison;

  it("fails for a wrong element, and says so before all else", () => {
    expect(judge([compared({ unbounded: 1 }), compared({ mismatched: 2 })])).toEqual({
      verdict: "fail",
      message: "output 1: 2 of 4 elements differ beyond tolerance",
    });
  });

  it("is unbounded where nothing is wrong and nothing is promised", () => {
    expect(judge([compared({ unbounded: 3, tied: 1 })])).toEqual({
      verdict: "unbounded",
      message: "3 of 4 elements are unbounded: WGSL promises nothing for them",
    });
  });

  it("passes all else", () =>
    expect(judge([compared({ tied: 4 })])).toEqual({ verdict: "pass", message: "" }));
});

it("calls what cannot run here unsupported, and all else an error", () => {
  const { verdict, message, outputs } = withoutRun({ kind: "unsupported", message: "m" });
  expect({ verdict, message, outputs }).toEqual({ verdict: "unsupported", message: "m", outputs: [] });
  expect(withoutRun({ kind: "internal", message: "m" }).verdict).toBe("error");
});
