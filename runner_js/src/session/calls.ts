import type { CallContext, Engine } from "../engine/engine";
import { execute } from "../execute/execute";
import { generateText } from "../execute/generate";
import { runCompiled } from "../execute/run_compiled";
import { runModel } from "../execute/run_model";
import { DeviceFailure } from "../hal/errors";
import type { Call } from "../protocol/messages";
import { validate } from "../validate/validate";

const ALIVE_MS = 2000;

/** Runs one call to its result; says every two seconds that it is still at it. */
export async function perform(
  engine: Engine,
  call: Call,
  progress: CallContext["progress"],
  signal: AbortSignal,
): Promise<unknown> {
  const alive = setInterval(() => {
    const { kernel = "", test = "" } = engine.gpu.running();
    const doing = [call.method, kernel, test].filter(Boolean).join(" ");
    progress({ kind: "alive", doing: doing.slice(0, 500) });
  }, ALIVE_MS);
  try {
    return await result(call, { engine, id: call.call, hangSeconds: call.hang_seconds, progress, signal });
  } finally {
    clearInterval(alive);
  }
}

function result(call: Call, context: CallContext): Promise<unknown> {
  switch (call.method) {
    case "validate":
      return validate(context, call.params);
    case "execute":
      return execute(context, call.params);
    case "run_model":
      return runModel(context, call.params);
    case "run_compiled":
      return runCompiled(context, call.params);
    case "generate":
      return generateText(context, call.params);
    case "ping":
      return Promise.resolve({});
  }
}

/** Why a call is stopped before its end. */
export function stopped(why: string): DeviceFailure {
  return new DeviceFailure({ kind: "cancelled", message: why });
}
