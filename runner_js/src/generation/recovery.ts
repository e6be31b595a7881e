/** Models whose states were lost. */
import type { DecoderModel, DecoderSequence } from "./api";
import { refused } from "./error";

/** States that are lost or undefined are made as before the first call. */
export async function forkOf(model: DecoderModel): Promise<DecoderSequence> {
  try {
    return await forked(model);
  } catch (cause) {
    await restored(model, cause);
    return forked(model);
  }
}

function forked(model: DecoderModel): Promise<DecoderSequence> {
  if (model.fork) return model.fork();
  throw refused(`${model.name} cannot be forked`, "give a model of @tapml/runtime");
}

const kindOf = (cause: unknown) => (cause as { kind?: unknown } | null)?.kind;

export function canRestore(cause: unknown, signal?: AbortSignal): boolean {
  return !signal?.aborted && ["device-lost", "state"].includes(String(kindOf(cause)));
}

/** States that are lost with the device, or undefined, are as before the first call; throws `cause` where it is another. */
export async function restored(model: DecoderModel, cause: unknown, signal?: AbortSignal): Promise<void> {
  if (!canRestore(cause, signal)) throw cause;
  await (kindOf(cause) === "state" ? model.reset() : model.reload({ signal }));
}
