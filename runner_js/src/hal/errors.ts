import type { DeviceError } from "../protocol/messages";

/** An error that already says what the server needs to know. */
export class DeviceFailure extends Error {
  constructor(
    readonly error: DeviceError,
    options?: ErrorOptions,
  ) {
    super(error.message, options);
    this.name = "DeviceFailure";
  }
}

/** Whatever was thrown, as a structured error. A stack is kept where the cause is unexpected. */
export function toDeviceError(cause: unknown): DeviceError {
  if (cause instanceof DeviceFailure) return cause.error;
  if (cause instanceof Error) {
    const error: DeviceError = { kind: "internal", message: describe(cause) };
    if (cause.stack) error.stack = cause.stack;
    return error;
  }
  return { kind: "internal", message: String(cause) };
}

function describe(error: Error): string {
  return error.name === "Error" ? error.message : `${error.name}: ${error.message}`;
}

/** "validation", "out-of-memory" or "internal" of a GPUError. */
export function gpuErrorKind(error: GPUError): DeviceError["kind"] {
  if (error instanceof GPUValidationError) return "validation";
  if (error instanceof GPUOutOfMemoryError) return "out-of-memory";
  return "internal";
}
