import type { CallContext } from "../engine/engine";
import { Batch, type DecoderModel, type GenerateOptions, GenerationError, Writer } from "../generation";
import { DeviceFailure } from "../hal/errors";
import type { GeneratedStep, GenerateParams, GenerateResult } from "../protocol/messages";
import type { Model } from "../runtime";
import { secondsSince, withModel } from "./compiled_model";
import { inspected } from "./inspected";
import { type Writers, watched, withKept } from "./kept_texts";
import { inputsOf } from "./run_compiled";

/**
 * Lets a compiled model write as a page does, several texts by the same calls where these take tokens of several, or each in a
 * sequence of its own: their calls take turns. Whoever asked makes text of the tokens, which are told as they come. A text that is kept is written on where later calls find it.
 */
export async function generateText(call: CallContext, params: GenerateParams): Promise<GenerateResult> {
  const start = performance.now();
  const { kept, prompts } = params;
  // What is to be given back went with its device.
  if (kept && !prompts.length && !call.engine.kept.has(params.model))
    return { tokens: 0, load_seconds: 0, variants: {}, bytes: 0 };
  if (kept) return withKept(call, params.model, kept, (on) => written(call, params, on, start));
  if (params.inspect && (prompts.length !== 1 || params.speculate !== null))
    throw new DeviceFailure({ kind: "protocol", message: "one text without guesses is inspected" });
  return withModel(call, { document: params.model, operators: {} }, "generate", (model, guarded) => {
    if (params.inspect) {
      const { model: looked, step } = inspected(model, guarded);
      const inspectedWriter = async () => new Writer(looked, null);
      return written(call, params, { model, writer: inspectedWriter }, start, null, step);
    }
    const writer = async (text: number) =>
      new Writer(watched(text ? await model.sequence() : model, guarded), null);
    const inOne = prompts.length > 1 && model.generation?.blocks && params.speculate === null;
    const batch = inOne ? new Batch(watched(model, guarded), null) : null;
    return written(call, params, { model, writer }, start, batch);
  });
}

async function written(
  call: CallContext,
  params: GenerateParams,
  { model, writer }: Writers,
  start: number,
  batch: Batch | null = null,
  step: () => GeneratedStep | null = () => null,
): Promise<GenerateResult> {
  return withDraft(call, params, async (draft) => {
    const load_seconds = secondsSince(start);
    const { given, destroy } = await left(call, model, params);
    const begun = performance.now();
    try {
      const one = async (promptIds: readonly number[], text: number) => {
        // Each has its own states, of the draft too.
        const by = (await draft?.(text)) ?? ("ngram" as const);
        const pieces = (await writer(text)).generate({
          ...asked(call, params, promptIds),
          given,
          speculate: params.speculate === null ? undefined : { draft: by, tokens: params.speculate },
        });
        let count = 0;
        for await (const { id, position, guessed } of pieces) {
          const seconds = secondsSince(begun);
          call.progress({ kind: "token", text, id, position, guessed, seconds, step: step() });
          count++;
        }
        return count;
      };
      const texts = batch ? [together(call, batch, params, begun)] : params.prompts.map(one);
      const tokens = (await Promise.all(texts)).reduce((sum, count) => sum + count, 0);
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

function asked(
  { signal }: CallContext,
  params: GenerateParams,
  promptIds: readonly number[],
): GenerateOptions {
  return {
    promptIds,
    tokens: params.tokens,
    stopIds: params.stop_ids,
    greedy: params.greedy,
    temperature: params.temperature ?? undefined,
    topK: params.top_k ?? undefined,
    topP: params.top_p ?? undefined,
    repetitionPenalty: params.repetition_penalty,
    seed: params.seed ?? undefined,
    signal,
  };
}

/** All texts by the same calls: how many tokens were written. */
async function together(
  call: CallContext,
  batch: Batch,
  params: GenerateParams,
  begun: number,
): Promise<number> {
  const texts = params.prompts.map((promptIds) => asked(call, params, promptIds));
  let count = 0;
  for await (const [text, { id, position, guessed }] of batch.generate(texts)) {
    call.progress({ kind: "token", text, id, position, guessed, seconds: secondsSince(begun) });
    count++;
  }
  return count;
}

/** With the model that guesses, by the number of a text, if there is one. */
function withDraft<T>(
  call: CallContext,
  { draft }: GenerateParams,
  use: (draft: ((text: number) => Promise<DecoderModel>) | null) => Promise<T>,
): Promise<T> {
  if (!draft) return use(null);
  return withModel(call, { document: draft, operators: {} }, "generate", (model, guarded) =>
    use(async (text) => watched(text ? await model.sequence() : model, guarded)),
  );
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
