import type { Engine } from "../engine/engine";
import { execute } from "../execute/execute";
import { runModel } from "../execute/run_model";
import { DeviceFailure } from "../hal/errors";
import type { Call, Progress } from "../protocol/messages";
import { validate } from "../validate/validate";

const ALIVE_MS = 2000;

/** Runs one call to its result; says every two seconds that it is still at it. */
export async function perform(
  engine: Engine,
  call: Call,
  progress: (progress: Progress["progress"]) => void,
  signal: AbortSignal,
): Promise<unknown> {
  const alive = setInterval(() => {
    const { kernel = "", test = "" } = engine.gpu.running();
    const doing = [call.method, kernel, test].filter(Boolean).join(" ");
    progress({ kind: "alive", doing: doing.slice(0, 500) });
  }, ALIVE_MS);
  try {
    return await result(engine, call, progress, signal);
  } finally {
    clearInterval(alive);
  }
}

function result(
  engine: Engine,
  call: Call,
  progress: (progress: Progress["progress"]) => void,
  signal: AbortSignal,
): Promise<unknown> {
  const { hang_seconds } = call;
  switch (call.method) {
    case "validate":
      return validate(engine, call.params, hang_seconds, progress, signal);
    case "execute":
      return execute(engine, call.call, call.params, hang_seconds, progress, signal);
    case "run_model":
      return runModel(engine, call.call, call.params, hang_seconds, progress, signal);
    case "ping":
      return Promise.resolve({});
  }
}

/** Why a call is stopped before its end. */
export function stopped(why: string): DeviceFailure {
  return new DeviceFailure({ kind: "cancelled", message: why });
}
