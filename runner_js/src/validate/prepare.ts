import { malformed } from "../compare/tolerances";
import type { Engine } from "../engine/engine";
import type { KernelState } from "../engine/kernels";
import { tooLarge, tooMuch } from "../hal/buffers";
import { toErrorReport } from "../hal/errors";
import { bytesOf } from "../program/dtypes";
import type { ErrorReport, Test } from "../protocol/messages";

/** Why this test cannot even start; null when it can. */
export function obstacle(engine: Engine, test: Test, state: KernelState | undefined): ErrorReport | null {
  const { kernel } = test;
  const wrong = (message: string): ErrorReport => ({ kind: "protocol", message, kernel, test: test.id });
  if (!state) return wrong(`the call brings no kernel ${kernel}`);
  if ("error" in state) return state.error;
  const given = test.inputs.length + test.outputs.length;
  if (given < state.argumentCount) {
    return wrong(
      `kernel ${kernel} is launched with ${state.argumentCount} arguments, test ${test.id} has ${given}`,
    );
  }
  if (test.tolerances.length !== test.outputs.length) {
    return wrong(
      `test ${test.id} has ${test.outputs.length} outputs and ${test.tolerances.length} tolerances`,
    );
  }
  const misfit = malformed(test);
  if (misfit) return wrong(misfit);
  const allowed = engine.gpu.device.limits.maxBufferSize;
  const variant = state.variant.name;
  let sizes = [...test.inputs, ...test.outputs].map(bytesOf);
  try {
    sizes = sizes.concat(state.at(test.sizes).temporaries);
  } catch (cause) {
    return { ...toErrorReport(cause), variant, test: test.id };
  }
  const largest = sizes.reduce((most, bytes) => Math.max(most, bytes), 0);
  if (largest > allowed) {
    return { kind: "unsupported", message: tooLarge(largest, allowed), kernel, variant, test: test.id };
  }
  const message = tooMuch(sizes, allowed);
  return message ? { kind: "unsupported", message, kernel, variant, test: test.id } : null;
}
