import type { CallContext } from "../engine/engine";
import { type DecoderModel, GenerationError, Writer } from "../generation";
import { DeviceFailure } from "../hal/errors";
import type { GenerateParams, GenerateResult } from "../protocol/messages";
import type { Model, Sequence } from "../runtime";
import { type Guarded, secondsSince, withModel } from "./compiled_model";
import { inputsOf } from "./run_compiled";

/** Lets a compiled model write as a page does, several texts each in a sequence of its own: their calls take turns. Whoever asked makes text of the tokens, which are told as they come. */
export async function generateText(call: CallContext, params: GenerateParams): Promise<GenerateResult> {
  const start = performance.now();
  const served = { document: params.model, operators: {} };
  return withModel(call, served, "generate", async (model, guarded) => {
    const load_seconds = secondsSince(start);
    const { given, destroy } = await left(call, model, params);
    const begun = performance.now();
    try {
      const written = params.prompts.map(async (promptIds, text) => {
        const decoder = text ? await model.sequence() : model;
        const pieces = new Writer(watched(decoder, guarded), null).generate({
          promptIds,
          given,
          tokens: params.tokens,
          stopIds: params.stop_ids,
          greedy: params.greedy,
          temperature: params.temperature ?? undefined,
          topK: params.top_k ?? undefined,
          topP: params.top_p ?? undefined,
          repetitionPenalty: params.repetition_penalty,
          seed: params.seed ?? undefined,
          speculate: params.speculate === null ? undefined : { draft: "ngram", tokens: params.speculate },
          signal: call.signal,
        });
        let count = 0;
        for await (const { id, position, guessed } of pieces) {
          call.progress({ kind: "token", text, id, position, guessed, seconds: secondsSince(begun) });
          count++;
        }
        return count;
      });
      const tokens = (await Promise.all(written)).reduce((sum, count) => sum + count, 0);
      call.signal.throwIfAborted();
      const { variants, memory } = model;
      return { tokens, load_seconds, variants, bytes: memory.total };
    } catch (cause) {
      if (!(cause instanceof GenerationError)) throw cause;
      throw new DeviceFailure({
        kind: cause.kind === "input" ? "input" : "internal",
        message: cause.message,
      });
    } finally {
      destroy();
    }
  });
}

/** What an encoder left, once on the GPU for all calls. */
async function left(
  { engine, signal }: CallContext,
  { device }: Model,
  { given: refs = {} }: GenerateParams,
) {
  const arrays = Object.entries(await inputsOf(engine, refs, signal));
  if (!arrays.length || !device) return { given: undefined, destroy: () => {} };
  const made = arrays.map(([name, { data, shape }]) => {
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST;
    const buffer = device.createBuffer({ size: Math.max(4, Math.ceil(data.byteLength / 4) * 4), usage });
    device.queue.writeBuffer(buffer, 0, data as BufferSource & ArrayBufferView<ArrayBuffer>);
    return [name, { data: buffer, shape }] as const;
  });
  const destroy = () => {
    for (const [, { data }] of made) data.destroy();
  };
  return { given: Object.fromEntries(made), destroy };
}

/** A model whose calls are watched. What a device that is lost did is the call's to tell, and no page's to mend. */
function watched(model: Model | Sequence, guarded: Guarded): DecoderModel {
  let failed: unknown;
  const functions = Object.entries(model.functions).map(([name, { run }]) => {
    const watchedRun: DecoderModel["functions"][string]["run"] = (inputs, options) => {
      const work = run(inputs, options);
      work.catch((cause) => {
        failed = cause;
      });
      return guarded(work);
    };
    return [name, { run: watchedRun }] as const;
  });
  return {
    name: model.name,
    generation: model.generation,
    get stateVersion() {
      return model.stateVersion;
    },
    functions: Object.fromEntries(functions),
    reset: () => model.reset(),
    reload: () => Promise.reject(failed),
  };
}
