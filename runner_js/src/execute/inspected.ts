/** Calls of a model that are looked at: what each was given, how long it took, and the logits that it gave. */
import type { DecoderModel } from "../generation";
import { DeviceFailure } from "../hal/errors";
import type { GeneratedStep } from "../protocol/messages";
import type { Inputs, Model, ModelFunction, RunOptions } from "../runtime";
import { type Guarded, secondsSince } from "./compiled_model";
import { watched } from "./kept_texts";

interface Call extends Omit<GeneratedStep, "logits"> {
  logits: Float32Array;
}

/** So many arguments of a call are well within what a stack holds. */
const PIECE = 8192;

/** A model that chooses no tokens itself, so that all logits are read; and its calls since `step` was asked for last. */
export function inspected(
  model: Model,
  guarded: Guarded,
): { model: DecoderModel; step: () => GeneratedStep } {
  let calls: Call[] = [];
  const run = async (name: string, fn: ModelFunction, inputs: Inputs, options: RunOptions = {}) => {
    const begun = performance.now();
    const { outputs, dispatches } = await fn.profile(inputs, { signal: options.signal });
    const { logits } = outputs;
    if (!(logits instanceof Float32Array)) throw new Error(`${name} gave no logits`);
    calls.push({
      function: name,
      tokens: tokensOf(inputs),
      seconds: secondsSince(begun),
      gpu_seconds: sumOf(dispatches.map(({ seconds }) => seconds)),
      states: model.memory.states,
      logits,
    });
    return outputs;
  };
  const step = (): GeneratedStep => {
    const last = calls.at(-1);
    if (!last) throw new DeviceFailure({ kind: "internal", message: "a token was chosen without a call" });
    const found = {
      ...last,
      tokens: calls.reduce((sum, { tokens }) => sum + tokens, 0),
      seconds: calls.reduce((sum, { seconds }) => sum + seconds, 0),
      gpu_seconds: sumOf(calls.map(({ gpu_seconds }) => gpu_seconds)),
      logits: base64(last.logits),
    };
    calls = [];
    return found;
  };
  const decoder = watched(model, guarded, run);
  const generation = decoder.generation && { ...decoder.generation, next: null };
  return { model: Object.defineProperty(decoder, "generation", { value: generation }), step };
}

/** Null where one is not known. */
function sumOf(seconds: readonly (number | null)[]): number | null {
  return seconds.reduce((sum, one) => (sum === null || one === null ? null : sum + one), 0);
}

function tokensOf({ positions }: Inputs): number {
  const data = positions && "data" in positions ? positions.data : null;
  return data instanceof Int32Array ? data.length : 1;
}

function base64(logits: Float32Array): string {
  const bytes = new Uint8Array(logits.buffer, logits.byteOffset, logits.byteLength);
  let text = "";
  for (let at = 0; at < bytes.length; at += PIECE)
    text += String.fromCharCode(...bytes.subarray(at, at + PIECE));
  return btoa(text);
}
