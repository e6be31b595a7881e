/**
 * The model, off the page's thread: a page that only shows what comes never freezes. Messages in: `write`, `continue`, `stop`,
 * `carve`; out: `progress`, `ready`, `piece`, `ended`, `lost`, `carved`, `failed`.
 * The four addresses are those of `tapml serve`; on a server of your own, copy the three modules and the model beside the page.
 */
import { Writer } from "../../runtime/tapml-generation.js";
import { load } from "../../runtime/tapml-runtime.js";
import { Tokenizer } from "../../runtime/tapml-tokenizer.js";

const MODEL = "../../models/tiny.tapml/";
/** Bytes of GPU memory for the copies that a recorded call makes of what its operators are given. */
const MOST_CAPTURED = 128 << 20;

const say = (type, facts = {}) => postMessage({ type, ...facts });
let model;
let writer;
/** Ends what is being written. */
let writing = null;
/** Is a call to be recorded? */
let recording = false;
let watched = null;

/** Where its device is lost the writer loads the model onto a new one and computes the text again; the page says so. */
function watch() {
  if (!model.device || model.device === watched) return;
  watched = model.device;
  watched.lost.then(() => say("lost"));
}

async function write(options) {
  writing = new AbortController();
  let [count, seconds, asked] = [0, 0, recording];
  try {
    let pieces = writer.generate({ ...options, signal: writing.signal });
    for (;;) {
      const { done, value } = await pieces.next();
      watch();
      const facts = { length: writer.tokens.length, memory: model.memory };
      if (!done) {
        say("piece", { ...value, ...facts });
        continue;
      }
      const { reason, ids, promptTokens, reusedTokens, prefillSeconds, decodeSeconds } = value;
      [count, seconds] = [count + ids.length, seconds + decodeSeconds];
      // Began with the call of one token, unless that was made before its recording was asked for, or all was computed again.
      const recorded = asked && reusedTokens === promptTokens - 1;
      if (recording && !recorded && reason === "length") {
        asked = true;
        pieces = writer.generate({ ...options, prompt: undefined, tokens: 1, signal: writing.signal });
      } else return say("ended", { reason, count, prefillSeconds, decodeSeconds: seconds, ...facts });
    }
  } finally {
    writing = null;
  }
}

/** What the operators of the next token's call are given and give. Where nothing is being written, it goes on for that. */
async function carve(options) {
  const waiting = new AbortController();
  const asked = { function: model.generation.decode, maxBytes: MOST_CAPTURED, signal: waiting.signal };
  const recorded = model.capture(asked).then(({ file, operators, leftOut, why }) => {
    say("carved", { file, name: model.name, operators: operators.length, leftOut, why });
  });
  recording = true;
  const over = () => {
    recording = false;
  };
  recorded.then(over, over);
  try {
    if (!writing) await write({ ...options, tokens: 1 });
  } catch (error) {
    waiting.abort(error);
  }
  await recorded;
}

function fail(error) {
  say("failed", { kind: error.kind ?? "", message: String(error.message ?? error) });
}

const work = {
  write: ({ prompt, options }) => write({ prompt, ...options }),
  continue: ({ options }) => write(options),
  stop: () => writing?.abort(),
  carve: ({ options }) => carve(options),
};
addEventListener("message", async ({ data }) => {
  try {
    await work[data.type](data);
  } catch (error) {
    fail(error);
  }
});

try {
  model = await load(new URL(MODEL, import.meta.url).href, { onProgress: (progress) => say("progress", progress) });
  writer = new Writer(model, new Tokenizer(await model.tokenizer()));
  watch();
  say("ready", { capacity: model.generation.capacity, memory: model.memory });
} catch (error) {
  fail(error);
}
