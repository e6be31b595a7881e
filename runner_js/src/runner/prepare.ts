import { toDeviceError } from "../hal/errors";
import { unmetRequirement } from "../hal/requirements";
import { describeBytes } from "../hal/sizes";
import type { DeviceError, Kernel, Test } from "../protocol/messages";
import type { KernelState } from "../tvm/kernels";
import { checkLaunches } from "../tvm/launch";
import { bytesOf } from "./dtypes";
import type { Engine } from "./engine";

/** Why kernels cannot run here, by name: their stated requirements against this device. */
export function unsupportedKernels(engine: Engine, kernels: readonly Kernel[]): Map<string, DeviceError> {
  const { features, limits } = engine.gpu.capabilities;
  const found = new Map<string, DeviceError>();
  for (const kernel of kernels) {
    const message = unmetRequirement(kernel.requires, features, limits);
    if (message) found.set(kernel.kernel, { kind: "unsupported", message, kernel: kernel.kernel });
  }
  return found;
}

/** Why this test cannot even start; null when it can. */
export function obstacle(engine: Engine, test: Test, state: KernelState | undefined): DeviceError | null {
  if (!state)
    return { kind: "protocol", message: `the call brings no kernel ${test.kernel}`, kernel: test.kernel };
  if (state.error) return state.error;
  try {
    checkLaunches(
      state.kernel,
      test.launches,
      test.inputs.length + test.outputs.length,
      test.temporaries.length,
    );
  } catch (cause) {
    return toDeviceError(cause);
  }
  if (test.tolerances.length !== test.outputs.length) {
    const message = `test ${test.id} has ${test.outputs.length} outputs and ${test.tolerances.length} tolerances`;
    return { kind: "protocol", message, kernel: test.kernel };
  }
  const allowed = engine.gpu.device.limits.maxBufferSize;
  const largest = Math.max(0, ...[...test.inputs, ...test.outputs].map(bytesOf), ...test.temporaries);
  if (largest <= allowed) return null;
  const message = `needs a buffer of ${describeBytes(largest)}, this device allows maxBufferSize ${describeBytes(allowed)}`;
  return { kind: "unsupported", message, kernel: test.kernel };
}
