import type { CompiledModel } from "../compiled/generated/model";
import type { Gpu } from "../hal/gpu";
import { describePair } from "../program/bytes";
import { TapmlError } from "./error";
import { arenasOf } from "./session";
import { statesOf } from "./states";

/** Throws where a buffer of the model is larger than the device allows. */
export function checkBuffers(model: CompiledModel, { device }: Gpu): void {
  const most = device.limits.maxBufferSize;
  const found = { weights: model.weights.buffers, intermediates: arenasOf(model), states: statesOf(model) };
  for (const [what, buffers] of Object.entries(found)) {
    const largest = Math.max(0, ...buffers);
    if (largest <= most) continue;
    const [needs, has] = describePair(largest, most);
    const sentence = `the ${what} of ${model.name} need a buffer of ${needs}, this device allows maxBufferSize ${has}`;
    throw new TapmlError("unsupported", sentence, "use another GPU, or build the model for smaller sizes");
  }
}
