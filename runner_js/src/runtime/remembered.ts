import type { CompiledModel } from "../compiled/generated/model";
import type { Gpu } from "../hal/gpu";
import { within } from "../hal/within";
import { digestOf, openCache } from "./source";

const FORMAT = "tapml.choices/1";
const KEPT = "https://tapml.invalid/choices/";
/** A storage that does not answer is none. */
const ANSWER_MS = 1000;
const MOST_BYTES = 1 << 20;

/**
 * The names of the variants that were the fastest on this device, by kernel: of this version of the model. Empty where
 * nothing is remembered, or nothing that can be understood: whatever else is on this origin may have written there.
 */
export async function recalled(model: CompiledModel, gpu: Gpu): Promise<Map<string, string>> {
  const found = within(read(model, gpu), ANSWER_MS, () => null).catch(() => null);
  return chosenIn(await found);
}

/** Settles when they are kept, or cannot be. */
export async function remember(
  model: CompiledModel,
  gpu: Gpu,
  choices: ReadonlyMap<string, string>,
): Promise<void> {
  try {
    const cache = await openCache();
    const text = JSON.stringify({ format: FORMAT, variants: Object.fromEntries(choices) });
    await cache?.put(await keyOf(model, gpu), new Response(text));
  } catch {
    // Where there is no room for it the next load times them again.
  }
}

async function read(model: CompiledModel, gpu: Gpu): Promise<unknown> {
  const cache = await openCache();
  const found = await cache?.match(await keyOf(model, gpu));
  if (!found) return null;
  const data = await found.arrayBuffer();
  return data.byteLength > MOST_BYTES ? null : JSON.parse(new TextDecoder().decode(data));
}

/** Of the device as it tells of itself, and of the kernels with their texts. */
async function keyOf({ kernels, wgsl }: CompiledModel, { capabilities }: Gpu): Promise<string> {
  const about = JSON.stringify([capabilities.adapter, kernels, wgsl]);
  return KEPT + (await digestOf(new TextEncoder().encode(about)));
}

function chosenIn(found: unknown): Map<string, string> {
  const { format, variants } = (found ?? {}) as { format?: unknown; variants?: Record<string, string> };
  // Names that are none are those of no variant.
  return new Map(format === FORMAT ? Object.entries(Object(variants)) : []);
}
