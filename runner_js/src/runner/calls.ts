import { DeviceFailure } from "../hal/errors";
import type { Call, Progress } from "../protocol/messages";
import type { Engine } from "./engine";
import { execute } from "./execute";
import { runModel } from "./run_model";
import { validate } from "./validate";

/** Runs one call to its result. */
export function perform(
  engine: Engine,
  call: Call,
  progress: (progress: Progress["progress"]) => void,
  signal: AbortSignal,
): Promise<unknown> {
  switch (call.method) {
    case "validate":
      return validate(engine, call.params, progress, signal);
    case "execute":
      return execute(engine, call.call, call.params, progress, signal);
    case "run_model":
      return runModel(engine, call.call, call.params, progress, signal);
    case "ping":
      return Promise.resolve({});
  }
}

/** Why a call is stopped before its end. */
export function stopped(why: string): DeviceFailure {
  return new DeviceFailure({ kind: "cancelled", message: why });
}
