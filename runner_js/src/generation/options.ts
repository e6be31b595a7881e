/** What may be asked for. Each is refused in one sentence. */
import type { DecoderModel, GenerateOptions, Reason, TextTokenizer } from "./api";
import { refused } from "./error";

type Facts = NonNullable<DecoderModel["generation"]>;

const KNOWN: Record<keyof GenerateOptions, true> = {
  greedy: true,
  temperature: true,
  topK: true,
  topP: true,
  repetitionPenalty: true,
  seed: true,
  prompt: true,
  promptIds: true,
  given: true,
  tokens: true,
  stop: true,
  stopIds: true,
  speculate: true,
  signal: true,
};
/** Vocabularies are filled up to a round number, not to twice of what they hold. */
const MOST_PADDING = 2;

/** What the model says of how tokens are generated with it. Throws where it says nothing. */
export function factsOf(model: DecoderModel): Facts {
  if (model.generation) return model.generation;
  throw refused(
    `${model.name} is no language model that generates`,
    "build one with `tapml build --hf FOLDER`",
  );
}

/** Tokens that end a text, and why: the model's own, and `stopIds`. */
export function endsOf(model: DecoderModel, stopIds: readonly number[] = []): ReadonlyMap<number, Reason> {
  const ends = factsOf(model).end.map((id) => [id, "end"] as const);
  return new Map<number, Reason>([...ends, ...stopIds.map((id) => [id, "stop"] as const)]);
}

/** Throws where a tokenizer's tokens cannot be the model's. */
export function checkTokenizer(model: DecoderModel, tokenizer: TextTokenizer | null): void {
  const { vocabulary, end, begin } = factsOf(model);
  if (!tokenizer) return;
  const fix = "give the one that came with the model, of model.tokenizer()";
  const said = `the tokenizer does not belong to ${model.name}`;
  const { size } = tokenizer;
  if (size > vocabulary || size * MOST_PADDING < vocabulary)
    throw refused(`${said}: it has ${size} tokens, the model ${vocabulary}`, fix);
  const unknown = [...end, ...(begin === null ? [] : [begin])].find(
    (id) => tokenizer.token(id) === undefined,
  );
  if (unknown !== undefined)
    throw refused(`${said}: it has no token ${unknown}, with which texts begin or end`, fix);
}

/** Throws for what is no option, and for values beyond their range; those of sampling are checked by themselves. */
export function checkGenerate(model: DecoderModel, options: GenerateOptions): void {
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(KNOWN, name));
  if (unknown !== undefined)
    throw refused(`generate has no option ${unknown}`, `there are ${Object.keys(KNOWN).join(", ")}`);
  const { prompt, promptIds, tokens, stop = [], stopIds = [] } = options;
  const { vocabulary } = factsOf(model);
  if (prompt !== undefined && promptIds !== undefined)
    throw refused("prompt and promptIds are given", "give one of them");
  if (prompt !== undefined && typeof prompt !== "string") throw refused("prompt is no text", "give a string");
  if (tokens !== undefined && !(Number.isSafeInteger(tokens) && tokens >= 1))
    throw refused(`tokens is ${tokens}`, "give a whole number from 1");
  if (!Array.isArray(stop) || stop.some((text) => typeof text !== "string" || text === ""))
    throw refused("stop is no list of texts with something in them", 'give it as ["\\n\\n"]');
  if (!Array.isArray(stopIds)) throw refused("stopIds is no list", "give it as [1, 2]");
  checkGiven(model, options);
  checkSpeculation(model, options);
  for (const id of [...(promptIds ?? []), ...stopIds])
    if (!(Number.isInteger(id) && id >= 0 && id < vocabulary))
      throw refused(`${id} is no token of ${model.name}`, `its vocabulary goes from 0 to ${vocabulary - 1}`);
}

function checkGiven(model: DecoderModel, { given }: GenerateOptions): void {
  if (given === undefined) return;
  const wanted = factsOf(model).given ?? [];
  if (!wanted.length) throw refused(`${model.name} takes nothing of an encoder`, "leave `given` out");
  const missing = wanted.find((name) => !Object.hasOwn(given, name));
  if (missing !== undefined)
    throw refused(
      `given has no ${missing}, to which ${model.name} attends`,
      "give all outputs of its encoder, by their names",
    );
}

function checkSpeculation(model: DecoderModel, { speculate }: GenerateOptions): void {
  if (speculate === undefined) return;
  const { verify, chunk, vocabulary } = factsOf(model);
  const { draft, tokens } = speculate;
  if (!verify)
    throw refused(
      `${model.name} gives the logits of one token only, so no drafts can be verified`,
      "build it with --speculate N, or leave speculate out",
    );
  if (!(Number.isSafeInteger(tokens) && tokens >= 1 && tokens < chunk))
    throw refused(`speculate.tokens is ${tokens}`, `give a whole number from 1 to ${chunk - 1}`);
  if (draft === "ngram") return;
  if (draft === model) throw refused("the draft is the model itself", "give a smaller one, loaded by itself");
  const { vocabulary: words, given = [] } = factsOf(draft);
  if (given.length)
    throw refused(`the draft ${draft.name} attends to what an encoder leaves`, "give one without an encoder");
  if (words !== vocabulary)
    throw refused(
      `the draft ${draft.name} has ${words} tokens, and ${model.name} ${vocabulary}`,
      "give one of the same vocabulary",
    );
}

/** The tokens of a prompt. Throws where there are none, or more than fit. */
export function promptTokens(
  model: DecoderModel,
  tokenizer: TextTokenizer | null,
  { prompt, promptIds, stop = [], given }: GenerateOptions,
): readonly number[] {
  const { capacity, begin } = factsOf(model);
  if (given && prompt === undefined && promptIds === undefined && begin !== null) return [begin];
  if (!tokenizer && (prompt !== undefined || stop.length))
    throw refused("without a tokenizer tokens have no text", "give promptIds and stopIds");
  const ids =
    promptIds ??
    (prompt && tokenizer ? tokenizer.encode(prompt, { truncation: false, padding: false }).ids : []);
  if (!ids.length)
    throw refused(
      "the prompt is empty",
      begin === null ? "give text or tokens" : `give text, or the token [${begin}] to begin a text`,
    );
  if (ids.length > capacity)
    throw refused(
      `the prompt has ${ids.length} tokens, and ${model.name} has room for ${capacity}`,
      `leave ${ids.length - capacity} out, or build the model with a larger --capacity`,
    );
  return ids;
}
