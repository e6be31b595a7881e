/** A text that a model writes, step by step: what its job has told so far. */

import type { StepDocument, TextDocument, TextEvent, TokenEvent } from "../api/generation";
import type { SuiteDetail, SuiteGeneration, TestRef } from "../api/types";
import { testState } from "./matrix";
import type { ResultsState } from "./results";
import { asState, type State } from "./verdicts";

/** A token, and what the reference said of the logits that it was chosen by, once it has. */
export interface WrittenToken extends TokenEvent {
  compared: Extract<TextEvent, { type: "compared" }> | null;
}

export interface Writing {
  /** Of the device that writes. */
  device: string | null;
  prompt: Extract<TextEvent, { type: "prompt" }> | null;
  tokens: readonly WrittenToken[];
  messages: readonly string[];
  state: "running" | "done" | "failed" | "cancelled";
  error: string | null;
  document: TextDocument | null;
}

export const BEGUN: Writing = {
  device: null,
  prompt: null,
  tokens: [],
  messages: [],
  state: "running",
  error: null,
  document: null,
};

export function written(writing: Writing, events: readonly TextEvent[]): Writing {
  let { device, prompt, error } = writing;
  const tokens = [...writing.tokens];
  const messages = [...writing.messages];
  let ended = false;
  for (const event of events) {
    if (event.type === "device") device = event.device.name;
    else if (event.type === "prompt") prompt = event;
    else if (event.type === "token") tokens.push({ ...event, compared: null });
    else if (event.type === "compared") {
      const at = tokens.findIndex(({ position }) => position === event.position);
      const token = tokens[at];
      if (token !== undefined) tokens[at] = { ...token, compared: event };
    } else if (event.type === "message") messages.push(event.text);
    else if (event.type === "ended") {
      error = event.error;
      ended = true;
    }
  }
  return { ...writing, device, prompt, tokens, messages, error, ...(ended && { state: stateOf(events) }) };
}

function stateOf(events: readonly TextEvent[]): Writing["state"] {
  const last = events.find((event) => event.type === "ended");
  return last?.state ?? "running";
}

/** Where the device's likeliest token is another one than the reference's, for the first time. */
export function parting(tokens: readonly WrittenToken[]): WrittenToken | null {
  return (
    tokens.find(({ compared }) => compared !== null && compared.greedy !== compared.reference_greedy) ?? null
  );
}

/** The colour of a token: what the reference says of its logits. */
export function tokenState({ compared }: WrittenToken): State {
  if (compared === null) return "waiting";
  if (compared.within === null) return "none";
  return compared.within ? "pass" : "fail";
}

/** In words, of the same. */
export function tokenWord(token: WrittenToken, running: boolean): string {
  const state = tokenState(token);
  if (state === "waiting") return running ? "not compared yet" : "not compared";
  if (state === "none") return "no tolerance to hold it against";
  return state === "pass" ? "within the model's tolerance" : "outside the model's tolerance";
}

export interface Stage {
  name: "prefill" | "decode";
  /** Tokens that calls were given, and calls' time; GPU time null where the device has no timestamps. */
  tokens: number;
  seconds: number;
  gpuSeconds: number | null;
}

/** The first token's calls took the prompt, each later one's the token before it. */
export function stages(tokens: readonly WrittenToken[]): Stage[] {
  const [first, ...later] = tokens;
  return first === undefined
    ? []
    : [stage("prefill", [first]), ...(later.length > 0 ? [stage("decode", later)] : [])];
}

function stage(name: Stage["name"], tokens: readonly WrittenToken[]): Stage {
  const sum = (of: (token: WrittenToken) => number) => tokens.reduce((all, token) => all + of(token), 0);
  const timed = tokens.every(({ gpu_seconds }) => gpu_seconds !== null);
  return {
    name,
    tokens: sum((token) => token.tokens),
    seconds: sum((token) => token.seconds),
    gpuSeconds: timed ? sum(({ gpu_seconds }) => gpu_seconds ?? 0) : null,
  };
}

/** Of a step the text that its call saw: the prompt and what was written before the token. */
export function textBefore(writing: Writing, token: WrittenToken): number[] {
  const ids = writing.tokens.filter(({ position }) => position < token.position).map(({ id }) => id);
  return [...(writing.prompt?.ids ?? []), ...ids];
}

const REASONS: Readonly<Record<TextDocument["reason"], string>> = {
  length: "as many tokens as were asked for",
  stop: "ended by a stop",
  end: "ended by the model",
  capacity: "no more tokens fit",
  abort: "aborted",
};

/** How a text ended, in words; null while it is written. */
export function endOf(writing: Writing): string | null {
  if (writing.state === "running") return null;
  if (writing.state === "failed") return "failed";
  if (writing.state === "cancelled") return REASONS.abort;
  return writing.document === null ? "done" : REASONS[writing.document.reason];
}

/** What is asked for, as the address has it. */
export interface Settings {
  prompt: string;
  tokens: string;
  temperature: string;
  topK: string;
  topP: string;
  seed: string;
}

/** The body of the request. Throws a sentence for a field that is no number. */
export function asked(settings: Settings, device: string, facts: SuiteGeneration): Record<string, unknown> {
  const number = (name: string, text: string): number | null => {
    if (text.trim() === "") return null;
    const found = Number(text);
    if (!Number.isFinite(found)) throw new Error(`${name} is ${JSON.stringify(text)}: give a number.`);
    return found;
  };
  const temperature = number("Temperature", settings.temperature);
  const greedy = temperature === null || temperature === 0;
  if (settings.prompt.trim() === "") throw new Error("The prompt is empty: give a text to go on with.");
  const prompt = facts.tokenizer ? { prompt: settings.prompt } : { prompt_ids: ids(settings.prompt) };
  return {
    device,
    ...prompt,
    tokens: number("Tokens", settings.tokens) ?? DEFAULTS.tokens,
    greedy,
    temperature: greedy ? null : temperature,
    top_k: greedy ? null : number("Top-k", settings.topK),
    top_p: greedy ? null : number("Top-p", settings.topP),
    seed: greedy ? null : number("Seed", settings.seed),
  };
}

export const DEFAULTS = { tokens: 24 };

function ids(text: string): number[] {
  return text
    .split(/[\s,]+/)
    .filter(Boolean)
    .map((part) => {
      if (!/^\d+$/.test(part))
        throw new Error(
          `${JSON.stringify(part)} is no token: this model has no tokenizer, give numbers as 3, 17, 42.`,
        );
      return Number(part);
    });
}

/** Is a test of the model's own steps? Those that were imported beside them count their steps anew. */
export function isModelTest(suite: SuiteDetail, test: TestRef): boolean {
  return test.step < suite.steps.length && !/^i\d+$/.test(test.node);
}

/** The graph's colours for a step: of the suite's tests of it, or of its calls where they were judged. */
export function stepNodeStates(
  suite: SuiteDetail,
  results: ResultsState,
  device: string | null,
  token: WrittenToken,
  calls: StepDocument["calls"] | undefined,
): ReadonlyMap<string, State> | null {
  if (calls !== undefined) return new Map(calls.map((call) => [call.node, asState(call.verdict)]));
  if (token.carved === null) return null;
  const tests = suite.tests.filter((test) => test.step === token.carved && isModelTest(suite, test));
  return new Map(
    tests.map((test) => [test.node, device === null ? "none" : testState(results, device, test)]),
  );
}

/** Of a token that is nothing but space, or has no text, what stands for it. */
export function shown({ id, text }: { id: number; text: string | null }): string {
  if (text === null) return String(id);
  if (text === "") return `⟨${id}⟩`;
  return text.replaceAll("\n", "↵");
}
