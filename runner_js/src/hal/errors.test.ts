import { describe, expect, it } from "vitest";
import type { Diagnostic, ErrorReport } from "../protocol/messages";
import { DeviceFailure, toErrorReport } from "./errors";

const reported = (report: ErrorReport) => toErrorReport(new DeviceFailure(report));
const long = (characters: number) => "x".repeat(characters);

describe("toErrorReport", () => {
  it("passes on what already says what it is", () => {
    const report: ErrorReport = { kind: "unsupported", message: "no", kernel: "k", command: 3 };
    expect(reported(report)).toEqual(report);
  });

  it("keeps the stack of what is unexpected", () => {
    const cause = new TypeError("x is undefined");
    expect(toErrorReport(cause)).toEqual({
      kind: "internal",
      message: "TypeError: x is undefined",
      stack: cause.stack,
    });
    expect(toErrorReport("thrown").message).toBe("thrown");
  });

  it("cuts texts to what a message may hold", () => {
    const report: ErrorReport = {
      kind: "internal",
      message: long(30_000),
      gpu_message: long(30_000),
      stack: long(30_000),
      lost_reason: long(30_000),
    };
    const found = reported(report);
    expect(found.message).toHaveLength(20_000);
    expect(found.gpu_message).toHaveLength(20_000);
    expect(found.stack).toHaveLength(20_000);
    expect(found.lost_reason).toHaveLength(2000);
    expect(report.message).toHaveLength(30_000);
  });

  it("tells of a hundred diagnostics, each cut", () => {
    const diagnostic: Diagnostic = {
      severity: "error",
      line: 1,
      column: 2,
      message: long(5000),
      source: long(5000),
      file: "k.wgsl",
    };
    const { diagnostics } = reported({
      kind: "compile",
      message: "",
      diagnostics: Array<Diagnostic>(150).fill(diagnostic),
    });
    expect(diagnostics).toHaveLength(100);
    expect(diagnostics?.[99]?.message).toHaveLength(2000);
    expect(diagnostics?.[99]?.source).toHaveLength(2000);
    expect(diagnostics?.[99]).toMatchObject({ line: 1, column: 2, file: "k.wgsl" });
  });

  it("cuts what is no report yet", () => {
    expect(toErrorReport(long(30_000)).message).toHaveLength(20_000);
    expect(toErrorReport(new Error(long(30_000))).message).toHaveLength(20_000);
  });
});
