import { describe, expect, it } from "vitest";
import type { TextEvent, TokenEvent } from "../api/generation";
import { suite } from "./fixture";
import {
  asked,
  BEGUN,
  endOf,
  parting,
  shown,
  stages,
  stepNodeStates,
  textBefore,
  tokenState,
  tokenWord,
  type Writing,
  written,
} from "./generation";
import { EMPTY } from "./results";

const FACTS = {
  capacity: 64,
  vocabulary: 100,
  bytes_per_token: 8,
  tokenizer: true,
  encoder: false,
  prompt: "Once",
};
const SETTINGS = { prompt: "Once", tokens: "8", temperature: "", topK: "", topP: "", seed: "" };

function token(position: number, changes: Partial<TokenEvent> = {}): TokenEvent {
  const step = { function: "decode", tokens: 1, seconds: 0.5, gpu_seconds: 0.25, states: 512, carved: null };
  return { type: "token", id: position * 10, text: ` t${position}`, position, ...step, ...changes };
}

function compared(position: number, changes: object = {}): TextEvent {
  const found = { cosine: 1, max_abs_error: 1e-6, within: true, greedy: 7, reference_greedy: 7 };
  return { type: "compared", position, ...found, reference_text: null, margin: 0, ...changes };
}

const PROMPT: TextEvent = {
  type: "prompt",
  ids: [3, 4],
  capacity: 64,
  bytes_per_token: 8,
  tolerance: null,
  kernels: { take: "a", norm: "b" },
};
const text = (...events: TextEvent[]): Writing => written(BEGUN, [PROMPT, ...events]);

describe("a text that is written", () => {
  it("has tokens as they come, and what the reference says of each when it does", () => {
    const first = text(token(2), token(3), compared(2));
    expect(first.tokens.map(({ position }) => position)).toEqual([2, 3]);
    expect(first.tokens.map(tokenState)).toEqual(["pass", "waiting"]);
    const then = written(first, [compared(3, { within: false, max_abs_error: 2 })]);
    expect(then.tokens.map(tokenState)).toEqual(["pass", "fail"]);
    expect(then.state).toBe("running");
  });

  it("keeps its tokens when it is aborted or fails, and says how it ended", () => {
    const aborted = written(text(token(2)), [{ type: "ended", state: "cancelled", error: null }]);
    expect(aborted.tokens).toHaveLength(1);
    expect(endOf(aborted)).toBe("aborted");
    const failed = written(text(token(2)), [{ type: "ended", state: "failed", error: "the device is gone" }]);
    expect([failed.tokens.length, failed.error, endOf(failed)]).toEqual([1, "the device is gone", "failed"]);
    expect(endOf(text(token(2)))).toBeNull();
  });

  it("says of a token that was never compared that it is not, and of one without a tolerance neither good nor bad", () => {
    const [one] = text(token(2)).tokens;
    if (one === undefined) throw new Error("no token");
    expect([tokenWord(one, true), tokenWord(one, false)]).toEqual(["not compared yet", "not compared"]);
    const [other] = text(token(2), compared(2, { within: null })).tokens;
    expect(other && tokenState(other)).toBe("none");
  });

  it("parts where the likeliest token is another one first, also where the chosen one is drawn", () => {
    const { tokens } = text(
      token(2),
      token(3),
      token(4),
      compared(2),
      compared(3, { greedy: 8 }),
      compared(4, { greedy: 9 }),
    );
    expect(parting(tokens)?.position).toBe(3);
    expect(parting(tokens.slice(0, 1))).toBeNull();
  });

  it("has the time of each stage, and no GPU time where one step has none", () => {
    const { tokens } = text(token(2, { tokens: 6, function: "prefill", seconds: 2 }), token(3), token(4));
    expect(stages(tokens)).toEqual([
      { name: "prefill", tokens: 6, seconds: 2, gpuSeconds: 0.25 },
      { name: "decode", tokens: 2, seconds: 1, gpuSeconds: 0.5 },
    ]);
    const untimed = text(token(2), token(3), token(4, { gpu_seconds: null })).tokens;
    expect(stages(untimed).map(({ gpuSeconds }) => gpuSeconds)).toEqual([0.25, null]);
    expect(stages([])).toEqual([]);
  });

  it("gives the tokens that a step's call had seen", () => {
    const writing = text(token(2), token(3), token(4));
    const [, second] = writing.tokens;
    expect(second && textBefore(writing, second)).toEqual([3, 4, 20]);
  });

  it("shows spaces, and tokens without a text", () => {
    expect([" a", "\n", ""].map((piece) => shown({ id: 5, text: piece }))).toEqual([" a", "↵", "⟨5⟩"]);
    expect(shown({ id: 5, text: null })).toBe("5");
  });
});

describe("what is asked for", () => {
  it("is greedy without a temperature, and drawn with one", () => {
    expect(asked(SETTINGS, "d", FACTS)).toMatchObject({
      prompt: "Once",
      tokens: 8,
      greedy: true,
      top_k: null,
    });
    const drawn = asked({ ...SETTINGS, temperature: "0.8", topK: "50", seed: "7" }, "d", FACTS);
    expect(drawn).toMatchObject({ greedy: false, temperature: 0.8, top_k: 50, seed: 7 });
  });

  it("is tokens where the model has no tokenizer", () => {
    const facts = { ...FACTS, tokenizer: false };
    expect(asked({ ...SETTINGS, prompt: "3, 17 42" }, "d", facts)).toMatchObject({ prompt_ids: [3, 17, 42] });
    expect(() => asked(SETTINGS, "d", facts)).toThrow('"Once" is no token');
  });

  it("says in a sentence what is no number, and that a prompt is empty", () => {
    expect(() => asked({ ...SETTINGS, prompt: " " }, "d", FACTS)).toThrow("The prompt is empty");
    expect(() => asked({ ...SETTINGS, temperature: "hot" }, "d", FACTS)).toThrow(
      'Temperature is "hot": give a number.',
    );
  });
});

describe("the graph of a step", () => {
  const small = { ...suite, steps: [{ description: "", inputs: {}, outputs: [] }] };
  const [plain, carved] = text(token(2), token(3, { carved: 0 })).tokens;

  it("has the suite's tests of that step, those that were imported beside them not", () => {
    if (!plain || !carved) throw new Error("no tokens");
    const imported = { id: "i000.s0", node: "i000", kernel: "take", step: 0 };
    const found = stepNodeStates(
      { ...small, tests: [...small.tests, imported] },
      EMPTY,
      "d",
      carved,
      undefined,
    );
    expect([...(found ?? [])]).toEqual([
      ["n0", "none"],
      ["n1", "none"],
      ["n3", "none"],
    ]);
    expect(stepNodeStates(small, EMPTY, "d", plain, undefined)).toBeNull();
  });

  it("has the verdicts of a step that was carved", () => {
    if (!plain) throw new Error("no token");
    const call = { kernel: "take", message: "", test: null };
    const calls = [
      { ...call, node: "n0", verdict: "fail" as const },
      { ...call, node: "n1", verdict: "pass" as const },
    ];
    expect([...(stepNodeStates(small, EMPTY, "d", plain, calls) ?? [])]).toEqual([
      ["n0", "fail"],
      ["n1", "pass"],
    ]);
  });
});
