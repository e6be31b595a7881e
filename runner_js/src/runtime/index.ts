/** @tapml/runtime: runs compiled models (docs/runtime.md). */
import type { CompiledModel } from "../compiled/generated/model";
import { ModelError, verified } from "../compiled/verify";
import type { LoadOptions, Model } from "./api";
import { checkChoose } from "./choose";
import { placeOf } from "./device";
import { TapmlError } from "./error";
import { toTapmlError } from "./errors";
import { LoadedModel } from "./model";
import { checkModules } from "./modules";
import { checkOptions } from "./options";
import { chooseVariants } from "./pipelines";
import { openSource } from "./source";
import { doubtOf } from "./validated";

export type * from "./api";
export { type Kind, TapmlError } from "./error";

/**
 * The model at `url`: the folder that `tapml build` wrote, with a / at the end, its model.json, or a single file.
 * Throws a TapmlError, or the signal's reason.
 */
export async function load(url: string, options: LoadOptions = {}): Promise<Model> {
  checkOptions("load", options);
  checkChoose(options.choose);
  const { signal = new AbortController().signal, cache = true } = options;
  const get = options.fetch ?? ((address, init) => fetch(address, init));
  // Beside the document's download and proof; `prepare` tells what goes wrong.
  const place = placeOf(options.device);
  place.catch(() => {});
  const source = await openSource(String(url), get, cache, signal);
  const document = checked(url, source.document);
  checkModules(document, options.modules ?? {});
  const doubt = doubtOf(document, options.unvalidated ?? "warn");
  const model = new LoadedModel(document, source, options);
  try {
    if (doubt) {
      // A kernel that cannot run here, for want of shader-f16, say, is told as that: validating it would not help.
      chooseVariants(document, (await place).gpu);
      if (options.unvalidated === "refuse") throw doubt;
      console.warn(doubt.message);
    }
    await model.prepare(options, place);
  } catch (cause) {
    throw toTapmlError(cause);
  }
  return model;
}

function checked(url: string, document: unknown): CompiledModel {
  try {
    return verified(document);
  } catch (cause) {
    if (!(cause instanceof ModelError)) throw cause;
    throw new TapmlError(
      "not-a-model",
      `${url}: ${cause.message}`,
      "build the model again, or copy it again",
      { cause },
    );
  }
}
