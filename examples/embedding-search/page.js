/**
 * Finds the sentences that mean most nearly what was asked: an embedding each, and the cosine of the angle between two.
 * The three addresses are those of `tapml serve`; on a server of your own, copy the two modules and the model beside the page.
 */
import { load } from "../../runtime/tapml-runtime.js";
import { Tokenizer } from "../../runtime/tapml-tokenizer.js";
import { SENTENCES } from "./sentences.js";

const MODEL = "../../models/minilm.tapml/";
const MOST_TOKENS = 512;
const SHOWN = 5;

const element = (id) => document.getElementById(id);
const form = element("search");
const question = element("question");
const button = form.querySelector("button");
const progress = element("progress");

function tell(text, failed = false) {
  element("status").textContent = text;
  element("status").classList.toggle("failed", failed);
}

/** Text to tokens to an embedding of length 1, so that the product of two is their cosine. */
function embedder(model, tokenizer) {
  const [output] = model.outputs.map(({ name }) => name);
  return async (text) => {
    const { ids, attentionMask, typeIds } = tokenizer.encode(text, { padding: false, truncation: MOST_TOKENS });
    const tensor = (numbers) => ({ data: Int32Array.from(numbers), shape: [1, numbers.length] });
    const outputs = await model.run({
      input_ids: tensor(ids),
      attention_mask: tensor(attentionMask),
      token_type_ids: tensor(typeIds),
    });
    return outputs[output];
  };
}

const cosine = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);

function list(found) {
  const items = found.map(({ text, score }) => {
    const item = document.createElement("li");
    const shown = Object.assign(document.createElement("span"), { textContent: text });
    const number = Object.assign(document.createElement("span"), { className: "score", textContent: score.toFixed(2) });
    const meter = Object.assign(document.createElement("meter"), { min: 0, max: 1, value: Math.max(0, score) });
    meter.setAttribute("aria-hidden", "true");
    item.append(shown, number, meter);
    return item;
  });
  element("results").replaceChildren(...items);
}

/** For whoever uses the page: what the runtime says of a lost device is for whoever writes it. */
function said(error) {
  return error.kind === "device-lost"
    ? "This browser lost its connection to the graphics card: load the page again"
    : error.message;
}

/** What was found for another question does not stand beside an error. */
function fail(error) {
  list([]);
  tell(said(error), true);
}

async function start() {
  const model = await load(MODEL, {
    onProgress: ({ bytes, totalBytes, kernels, totalKernels }) => {
      progress.value = bytes / totalBytes;
      tell(`Loading the model: ${(bytes / 1e6).toFixed(0)} of ${(totalBytes / 1e6).toFixed(0)} MB, ${kernels} of ${totalKernels} kernels`);
    },
  });
  const embed = embedder(model, new Tokenizer(await model.tokenizer()));
  const known = [];
  let asked = null;
  const show = () => {
    if (!asked) return;
    const found = known.map(({ text, embedding }) => ({ text, score: cosine(asked, embedding) }));
    list(found.sort((a, b) => b.score - a.score).slice(0, SHOWN));
  };

  // Calls of a model run one after the other: a question has its turn after the sentence that is being read.
  let latest = 0;
  const search = async () => {
    const mine = ++latest;
    const text = question.value.trim();
    if (!text) {
      asked = null;
      list([]);
      tell("Type a question.");
      return;
    }
    const begun = performance.now();
    try {
      const embedding = await embed(text);
      if (mine !== latest) return;
      asked = embedding;
      show();
      tell(`${(performance.now() - begun).toFixed(0)} ms, in this browser`);
    } catch (error) {
      if (mine !== latest) return;
      asked = null;
      fail(error);
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  question.disabled = button.disabled = false;
  await search();
  progress.setAttribute("aria-label", "Reading the sentences");
  for (const text of SENTENCES) {
    known.push({ text, embedding: await embed(text) });
    progress.value = known.length / SENTENCES.length;
    tell(`Read ${known.length} of ${SENTENCES.length} sentences`);
    show();
  }
  progress.hidden = true;
}

start().catch((error) => {
  progress.hidden = true;
  fail(error);
});
