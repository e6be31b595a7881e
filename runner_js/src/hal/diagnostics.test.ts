import { describe, expect, it } from "vitest";
import type { Diagnostic } from "../protocol/messages";
import { compileError, describeDiagnostics } from "./diagnostics";

const error: Diagnostic = {
  severity: "error",
  line: 14,
  column: 9,
  message: "unresolved value 'foo'",
  source: "    let x = foo;",
  file: "layer_norm.wgsl",
};
const warning: Diagnostic = { ...error, severity: "warning", message: "code is unreachable" };

describe("diagnostics", () => {
  it("point at file, line and column and quote the line", () => {
    expect(describeDiagnostics([error])).toBe(
      "layer_norm.wgsl:14:9: unresolved value 'foo'\n    let x = foo;",
    );
  });

  it("do without a place", () => {
    expect(describeDiagnostics([{ ...error, line: 0, column: 0, source: "" }])).toBe(
      "layer_norm.wgsl: unresolved value 'foo'",
    );
  });

  it("become the error's message, warnings left out", () => {
    const made = compileError("layer_norm", "layer_norm.wgsl", [warning, error], "refused");
    expect(made).toMatchObject({ kind: "compile", kernel: "layer_norm", diagnostics: [warning, error] });
    expect(made.message).toBe(describeDiagnostics([error]));
  });

  it("give way to the pipeline's own reason", () => {
    expect(compileError("k", "k.wgsl", [warning], "workgroup too large\n - While creating it").message).toBe(
      "k.wgsl: workgroup too large",
    );
  });
});
