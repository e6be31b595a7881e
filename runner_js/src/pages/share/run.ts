/** One shared test through the very code that devices run. */
import type { Outcome, Repro } from "../../../repro/types";
import { type ErrorMap, errorMap } from "../../compare/error_map";
import type { Blobs } from "../../engine/blobs";
import { type CallContext, Engine } from "../../engine/engine";
import { toErrorReport } from "../../hal/errors";
import type { Gpu } from "../../hal/gpu";
import type { Platform } from "../../platform/platform";
import type { TestVerdict } from "../../protocol/messages";
import { validate, withoutRun } from "../../validate/validate";
import { kernelMessage, testMessage } from "./messages";

/** GPU work that takes longer is taken for hung. */
const HANG_SECONDS = 30;

/** Never rejects: what goes wrong is the verdict. */
export async function runShared(
  gpu: Gpu,
  blobs: Blobs,
  platform: Pick<Platform, "name" | "userAgent">,
  repro: Repro,
  hangSeconds = HANG_SECONDS,
): Promise<Outcome> {
  const engine = new Engine(gpu, blobs);
  const test = testMessage(repro);
  const maps: ErrorMap[] = [];
  engine.inspect = (output, got, expected, allowed) => {
    const type = repro.outputs[output];
    if (type) maps.push(errorMap(got, expected, type, output, allowed));
  };
  let verdict: TestVerdict | null = null;
  try {
    const params = { kernels: [kernelMessage(repro)], tests: [test] };
    const { signal } = new AbortController();
    const progress: CallContext["progress"] = (said) => {
      if (said.kind === "verdict") verdict = said;
    };
    await validate({ engine, id: "", hangSeconds, progress, signal }, params);
  } catch (cause) {
    verdict ??= withoutRun(test, toErrorReport(cause));
  }
  const given = verdict ?? withoutRun(test, { kind: "internal", message: "the test gave no verdict" });
  const device = { name: platform.name, user_agent: platform.userAgent, ...gpu.capabilities };
  const { outputs, error, message, variant, seconds } = given;
  return { verdict: given.verdict, message, variant, outputs, error, seconds: { ...seconds }, maps, device };
}
