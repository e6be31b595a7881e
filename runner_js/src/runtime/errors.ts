import { DeviceFailure } from "../hal/errors";
import { type Kind, TapmlError } from "./error";

export const DEVICE_LOST_FIX = "call model.reload()";

/** An error of the layer over WebGPU as one of the runtime; anything else is given back as it is. */
export function toTapmlError(cause: unknown): unknown {
  if (!(cause instanceof DeviceFailure)) return cause;
  const { kind, message, kernel } = cause.report;
  const named = kernel && !message.includes(`kernel ${kernel}`) ? `kernel ${kernel}: ${message}` : message;
  const failed = (as: Kind, fix: string) => new TapmlError(as, named, fix, { cause });
  switch (kind) {
    case "device-lost":
      return failed("device-lost", DEVICE_LOST_FIX);
    case "out-of-memory":
      return failed("memory", "dispose of models that are not used, or build for smaller sizes");
    case "unsupported":
      return failed(
        "unsupported",
        "use another browser or GPU, or build the model with a variant that asks for less",
      );
    case "compile":
      return failed(
        "compile",
        "validate the model on this browser with `tapml validate` and report the kernel",
      );
    default:
      return failed("gpu", "validate the model on this browser with `tapml validate`");
  }
}
