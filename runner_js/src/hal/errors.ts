import type { ErrorReport } from "../protocol/messages";
import { within } from "./within";

/** The protocol's bounds of texts. */
const LONG = 20_000;
const SHORT = 2_000;
const MOST_DIAGNOSTICS = 100;

/** An error that already says what the server needs to know. */
export class DeviceFailure extends Error {
  constructor(
    readonly report: ErrorReport,
    options?: ErrorOptions,
  ) {
    super(report.message, options);
    this.name = "DeviceFailure";
  }
}

/** Whatever was thrown, as a structured error. A stack is kept where the cause is unexpected. */
export function toErrorReport(cause: unknown): ErrorReport {
  if (cause instanceof DeviceFailure) return clipped(cause.report);
  if (cause instanceof Error) {
    const report: ErrorReport = { kind: "internal", message: describe(cause) };
    if (cause.stack) report.stack = cause.stack;
    return clipped(report);
  }
  return clipped({ kind: "internal", message: String(cause) });
}

function describe(error: Error): string {
  return error.name === "Error" ? error.message : `${error.name}: ${error.message}`;
}

/** Texts cut to what a message may hold. */
function clipped(report: ErrorReport): ErrorReport {
  const found = { ...report, message: report.message.slice(0, LONG) };
  if (found.gpu_message) found.gpu_message = found.gpu_message.slice(0, LONG);
  if (found.stack) found.stack = found.stack.slice(0, LONG);
  if (found.lost_reason) found.lost_reason = found.lost_reason.slice(0, SHORT);
  if (found.diagnostics) {
    found.diagnostics = found.diagnostics.slice(0, MOST_DIAGNOSTICS).map((diagnostic) => ({
      ...diagnostic,
      message: diagnostic.message.slice(0, SHORT),
      source: diagnostic.source.slice(0, SHORT),
    }));
  }
  return found;
}

/** "validation", "out-of-memory" or "internal" of a GPUError. */
export function gpuErrorKind(error: GPUError): "validation" | "out-of-memory" | "internal" {
  if (error instanceof GPUValidationError) return "validation";
  if (error instanceof GPUOutOfMemoryError) return "out-of-memory";
  return "internal";
}

/** Firefox on a busy machine takes more than one second; where nothing was lost, only an error of ours comes later. */
const WORD_OF_LOSS_MS = 5000;

/** Where a device goes, maps and error scopes fail at once, and word of the loss comes after them: wait for it. */
export async function wordOfLoss(device: GPUDevice): Promise<void> {
  await within<unknown>(device.lost, WORD_OF_LOSS_MS, () => {});
}
