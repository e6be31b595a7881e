import type { Diagnostic, ErrorReport } from "../protocol/messages";
import { tidyGpuMessage } from "./gpu_text";

/** GPUCompilationInfo of WGSL that a pipeline was refused for. */
export async function diagnose(device: GPUDevice, file: string, code: string): Promise<Diagnostic[]> {
  // The module is only made to be asked; its own error is the one already in hand.
  device.pushErrorScope("validation");
  const shaderModule = device.createShaderModule({ code });
  const popped = device.popErrorScope().catch(() => null);
  const info = await shaderModule.getCompilationInfo();
  await popped;
  const lines = code.split("\n");
  return info.messages.map((message) => ({
    severity: message.type,
    line: message.lineNum,
    column: message.linePos,
    message: tidyGpuMessage(message.message),
    source: (lines[message.lineNum - 1] ?? "").trimEnd(),
    file,
  }));
}

/** "layer_norm.wgsl:14:9"; line 0 is none. */
export function placeOf({ file, line, column }: Diagnostic): string {
  return line > 0 ? `${file}:${line}:${column}` : file;
}

/** "layer_norm.wgsl:14:9: unresolved value 'foo'\n    let x = foo;", one after the other */
export function describeDiagnostics(diagnostics: readonly Diagnostic[]): string {
  return diagnostics
    .map((d) => `${placeOf(d)}: ${d.message}${d.source.trim() ? `\n    ${d.source.trim()}` : ""}`)
    .join("\n");
}

/** The error of a kernel whose pipeline was refused; `reason` is what the browser said of the pipeline itself. */
export function compileError(
  kernel: string,
  file: string,
  diagnostics: Diagnostic[],
  reason: string,
): ErrorReport {
  const errors = diagnostics.filter((d) => d.severity === "error");
  // Without an error in the text it is the pipeline that does not fit: a binding, a workgroup size.
  const message = errors.length ? describeDiagnostics(errors) : `${file}: ${tidyGpuMessage(reason)}`;
  return { kind: "compile", message, kernel, diagnostics, gpu_message: reason || null };
}
