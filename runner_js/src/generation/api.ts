/** A language model or a sequence of one as @tapml/runtime gives it, as far as generation needs it. */
export interface DecoderModel {
  readonly name: string;
  readonly generation: {
    readonly prefill: string;
    readonly decode: string;
    readonly verify?: string | null;
    readonly next?: string | null;
    readonly draw?: string | null;
    readonly given?: readonly string[];
    readonly chunk: number;
    readonly capacity: number;
    readonly vocabulary: number;
    readonly end: readonly number[];
    readonly begin: number | null;
    readonly blocks?: { readonly input: string; readonly size: number; readonly count: number } | null;
  } | null;
  /** Another number after each call that may have changed the states. */
  readonly stateVersion: number;
  readonly functions: Readonly<Record<string, DecoderFunction>>;
  reset(): Promise<void>;
  reload(options?: { signal?: AbortSignal | undefined }): Promise<void>;
  /** The same with states of its own, which begin with what these hold. */
  fork?(): Promise<DecoderSequence>;
}

/** A model whose states are given back by themselves. */
export interface DecoderSequence extends DecoderModel {
  dispose(): void;
}

export type DecoderInput =
  | { data: Int32Array | Float32Array | GPUBuffer; shape: readonly number[] }
  | { output: string }
  | Float32Array
  | GPUBuffer;

export interface DecoderFunction {
  run(
    inputs: Readonly<Record<string, DecoderInput>>,
    options?: {
      signal?: AbortSignal | undefined;
      outputs?: Readonly<Record<string, "unread">> | undefined;
      more?: boolean | undefined;
    },
  ): Promise<Record<string, unknown>>;
}

/** A tokenizer as @tapml/runtime/tokenizer gives it. */
export interface TextTokenizer {
  readonly size: number;
  encode(text: string, options?: { truncation?: boolean; padding?: boolean }): { ids: number[] };
  decode(ids: Iterable<number>): string;
  token(id: number): string | undefined;
}

/** How a token is chosen, in this order: repetition penalty, temperature, top-k, top-p, a draw. */
export interface SamplingOptions {
  /** The most likely token, of equal ones that of the lowest id. The penalty is its only other option. */
  greedy?: boolean | undefined;
  /** Above 0; 1 if nothing is said. */
  temperature?: number | undefined;
  /** How many of the most likely tokens there are to choose from: all if nothing is said. */
  topK?: number | undefined;
  /** From 0 to 1: the fewest of the most likely tokens that are as likely together. 1 if nothing is said. */
  topP?: number | undefined;
  /** Logits of tokens that are in the text are divided by it, or multiplied where they are below 0. 1 if nothing is said. */
  repetitionPenalty?: number | undefined;
  /** A whole number from 0: the same gives the same text. 0 if nothing is said. */
  seed?: number | undefined;
}

/** Tokens that are guessed, and verified by one call of the model: those that it would have chosen itself are written. */
export interface Speculation {
  /** By what stood behind the last tokens before ("ngram"), or by a smaller model of the same vocabulary, greedily. */
  draft: "ngram" | DecoderModel;
  /** How many are guessed at a time. */
  tokens: number;
}

export interface GenerateOptions extends SamplingOptions {
  /** What is to be continued, as text or as tokens. A Writer goes on with what it has if neither is given. */
  prompt?: string | undefined;
  promptIds?: readonly number[] | undefined;
  /**
   * Of a model that attends to what an encoder leaves: that encoder's outputs, which are inputs of every call of the text. With
   * them and without a prompt a text begins with the model's own token. A Writer keeps them until it is given others.
   */
  given?: Readonly<Record<string, DecoderInput>> | undefined;
  /** How many at most: as many as fit if nothing is said. */
  tokens?: number | undefined;
  /** Texts that end it, and are not given. */
  stop?: readonly string[] | undefined;
  /** Tokens that end it, besides the model's own. */
  stopIds?: readonly number[] | undefined;
  /** The text is the same without it. */
  speculate?: Speculation | undefined;
  /** Ends it, in the middle of a token too: what was written stays. */
  signal?: AbortSignal | undefined;
}

/** A token that was chosen. */
export interface Piece {
  id: number;
  /** What became certain with it: whole characters, and no part of what may become a stop text. */
  text: string;
  /** Where it stands, from 0 on: behind the prompt. */
  position: number;
  /** Whether it was guessed, so that its call gave more than one token. */
  guessed: boolean;
}

/** `length`: as many tokens as were asked for; `stop`: by `stop` or `stopIds`; `end`: by the model; `capacity`: no more fit. */
export type Reason = "length" | "stop" | "end" | "capacity" | "abort";

export interface Generated {
  /** Those that were chosen, one that ends the text included. */
  ids: number[];
  /** All of the text. What was kept back as the beginning of a stop text is in it, half a character is not. */
  text: string;
  reason: Reason;
  /** Tokens of the prompt, and those of them that were in the model's states already. */
  promptTokens: number;
  reusedTokens: number;
  /** Calls of the model from the first token on, guesses, and those that were right; null without `speculate`. */
  speculated: { steps: number; drafted: number; accepted: number } | null;
  /** Until the first token could be chosen, and from there on. */
  prefillSeconds: number;
  decodeSeconds: number;
}
