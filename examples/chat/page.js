/** What people see of the model, which a worker has: the text as it comes, how fast, and what to do about it. */
import { handOver, isTaken } from "./hand-over.js";

/** The first words choose the voice: these are of texts that the model was trained on, or near to them. */
const BEGINNINGS = [
  "It was a dark and stormy night",
  "She was a young lady of",
  "The king said to",
  "GPU (noun):",
  "INTERNET, n.",
  "Emma by Jane Austen, chapter 56\n\n",
  "Genesis, chapter 51\n\n",
  "Python: json — ",
];
const NUMBERS = ["temperature", "topP", "topK", "repetitionPenalty", "seed"];
/** What greedy takes no notice of: it is the likeliest token as the model has it, as `tapml generate --greedy` is. */
const OF_DRAWS = ["temperature", "topP", "topK", "repetitionPenalty", "seed", "reseed"];
const NO_WEBGPU =
  "This page writes with your graphics card, by way of WebGPU, and this browser offers it none: open it in an up-to-date " +
  "Chrome, Edge, Firefox or Safari, on a computer or phone whose graphics card they support.";
const WHAT_CARVE_DOES = "Record what the model's operators are given and give for the next token";
const NOTHING_FOLLOWS = "There is no next token: the text is at its end";
const WHY = {
  length: "as long as you asked for",
  end: "the model ended the text",
  stop: "the model ended the text",
  abort: "stopped",
  capacity: "the model has no room for more",
};

const element = (id) => document.getElementById(id);
const made = (name, facts = {}) => Object.assign(document.createElement(name), facts);
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

/** loading, ready, writing, stopping, or failed: there is no model. */
let state = "loading";
let capacity = 0;
let carving = false;
/** What is being written, or was last, and what was before it. */
let text = null;
let before = null;

const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });

function tell(sentence, failed = false) {
  element("status").textContent = sentence;
  element("status").classList.toggle("failed", failed);
}

function show(next = state) {
  state = next;
  const ready = state === "ready";
  const goesOn = Boolean(text && text.tokens > 0 && text.tokens < capacity && !text.ended);
  const why = ready && text?.tokens && !goesOn ? NOTHING_FOLLOWS : "";
  element("write").disabled = !ready;
  element("stop").disabled = state !== "writing";
  element("continue").disabled = !(ready && goesOn);
  element("continue").title = why;
  element("carve").disabled = carving || !(state === "writing" || (ready && goesOn));
  element("carve").title = why || WHAT_CARVE_DOES;
  element("prompt").disabled = state === "loading" || state === "failed";
  for (const name of OF_DRAWS) element(name).disabled = element("greedy").checked;
  const running = state === "writing" || state === "stopping";
  // Screen readers say the whole when it is there, not each token.
  element("texts").setAttribute("aria-busy", String(running));
  text?.shown.classList.toggle("writing", running);
}

/** What the page asks of `generate`; null where a field holds what it may not. */
function options() {
  const fields = [...document.querySelectorAll("fieldset input:enabled")];
  const wrong = fields.find((field) => !field.checkValidity());
  if (wrong) {
    wrong.closest("details").open = true;
    wrong.reportValidity();
    tell(`${wrong.labels[0].textContent.trim()}: ${wrong.validationMessage}`, true);
    return null;
  }
  const tokens = element("tokens").valueAsNumber;
  if (element("greedy").checked) return { greedy: true, tokens };
  return { ...Object.fromEntries(NUMBERS.map((name) => [name, element(name).valueAsNumber])), tokens };
}

function begin(prompt) {
  const shown = made("article");
  const paragraph = made("p");
  const [given, written] = [made("span", { className: "given", textContent: prompt }), made("span", { className: "written" })];
  const facts = made("footer", { className: "muted small" });
  paragraph.append(given, written);
  shown.append(paragraph, facts);
  element("texts").append(shown);
  before = text;
  text = { shown, written, facts, tokens: 0, total: 0, ended: false, first: 0, count: 0 };
}

function write(prompt) {
  const asked = options();
  if (state !== "ready" || !asked) return;
  if (prompt !== null) {
    if (element("reseed").checked && !asked.greedy) {
      asked.seed = Math.floor(Math.random() * 2 ** 32);
      element("seed").value = asked.seed;
    }
    begin(prompt);
    worker.postMessage({ type: "write", prompt, options: asked });
    tell("Reading the beginning…");
  } else {
    text.ended = false;
    worker.postMessage({ type: "continue", options: asked });
    tell("Writing…");
  }
  [text.first, text.count] = [0, 0];
  element("speed").textContent = "–";
  text.by = asked.greedy ? "greedy" : `seed ${asked.seed}`;
  show("writing");
}

function stop() {
  if (state !== "writing") return;
  worker.postMessage({ type: "stop" });
  show("stopping");
}

function facts({ length, memory }) {
  element("length").textContent = `${length} of ${capacity} tokens`;
  element("memory").textContent = megabytes(memory.total);
  element("memory").title = `weights ${megabytes(memory.weights)}, keys and values ${megabytes(memory.states)}, scratch ${megabytes(memory.arenas)}`;
}

/** What can be done with a text that was written so far. */
function after(reason, length) {
  const nothing = "so Continue and Carve this have no next token. Begin another text.";
  if (reason === "capacity") return `The text has ${length} tokens, and the model has no room for more, ${nothing}`;
  return text.ended ? `The model ended the text, ${nothing}` : "Continue goes on from here.";
}

/** A prompt of which nothing was computed leaves no text behind: the one before can still be gone on with. */
function takeBack() {
  text.shown.remove();
  [text, before] = [before, null];
  if (text) element("length").textContent = `${text.tokens} of ${capacity} tokens`;
}

const heard = {
  progress({ bytes, totalBytes, kernels, totalKernels }) {
    element("progress").value = (bytes + kernels) / (totalBytes + totalKernels);
    tell(`Loading the model: ${megabytes(bytes)} of ${megabytes(totalBytes)}, ${kernels} of ${totalKernels} kernels`);
  },
  ready(found) {
    capacity = found.capacity;
    element("tokens").max = capacity;
    element("progress").hidden = true;
    element("facts").hidden = false;
    facts({ length: 0, memory: found.memory });
    tell("The model is here. Begin a text, or choose a beginning.");
    show("ready");
  },
  piece(found) {
    const now = performance.now();
    if (!text.count++) text.first = now;
    else element("speed").textContent = `${((1000 * (text.count - 1)) / (now - text.first)).toFixed(1)} tokens a second`;
    text.written.textContent += found.text;
    text.tokens = found.length;
    facts(found);
    if (state === "writing") tell("Writing…");
  },
  ended({ reason, count, decodeSeconds, ...found }) {
    text.tokens = found.length;
    text.total += count;
    text.ended = reason === "end" || reason === "stop" || reason === "capacity";
    const speed = count > 1 && decodeSeconds > 0 ? `${((count - 1) / decodeSeconds).toFixed(1)} tokens a second` : "";
    if (speed) element("speed").textContent = speed;
    text.facts.textContent = [`${text.total} ${text.total === 1 ? "token" : "tokens"}`, speed, text.by, WHY[reason]].filter(Boolean).join(" · ");
    facts(found);
    tell(after(reason, found.length));
    show("ready");
  },
  lost() {
    const goesOn = state === "writing" || state === "stopping";
    tell(
      goesOn
        ? "The browser lost the graphics card: the model is loaded again, and the text computed again…"
        : "The browser lost the graphics card: with the next word the model is loaded again.",
    );
  },
  carved({ file, name, operators, leftOut, why }) {
    carving = false;
    const left = leftOut ? ` ${leftOut} more were left out: ${why.join("; ")}.` : "";
    element("carved-what").textContent =
      `${operators} operator calls of one token are recorded: what each was given, and what this graphics card made of it ` +
      `(${megabytes(file.size)}).${left} Your text can be told from it, so it leaves the page only if you say so.`;
    const download = element("download");
    URL.revokeObjectURL(download.href);
    const address = URL.createObjectURL(file);
    download.href = address;
    download.download = `${name}.capture`;
    element("verdicts").hidden = true;
    element("carved-status").textContent = "";
    element("hand-over").hidden = true;
    element("hand-over").disabled = false;
    element("hand-over").onclick = () => handOver(file);
    isTaken(file).then((taken) => {
      if (download.href !== address) return; // another call was carved meanwhile
      element("hand-over").hidden = !taken;
      element("carved-import").hidden = taken;
    });
    element("carved").hidden = false;
    element("carved").scrollIntoView({ block: "nearest" });
    show();
  },
  failed({ kind, message }) {
    carving = false;
    element("progress").hidden = true;
    if (kind === "input" && text && !text.count && !text.total) takeBack();
    tell(kind === "no-webgpu" ? `${NO_WEBGPU} (${message}.)` : message, true);
    show(state === "loading" ? "failed" : "ready");
  },
};
worker.addEventListener("message", ({ data: { type, ...found } }) => heard[type](found));
worker.addEventListener("error", () => {
  heard.failed({ kind: "", message: "This browser cannot run the page's program: update it, or open the page in another one." });
});

element("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const prompt = element("prompt").value;
  if (prompt.trim()) write(prompt);
  else tell("Type how the text begins.");
});
element("prompt").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) element("composer").requestSubmit();
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape") stop();
});
element("stop").addEventListener("click", stop);
element("continue").addEventListener("click", () => write(null));
element("greedy").addEventListener("change", () => show());
element("carve").addEventListener("click", () => {
  const asked = options();
  if (!asked) return;
  carving = true;
  const idle = state === "ready";
  if (idle) [text.first, text.count] = [0, 0];
  worker.postMessage({ type: "carve", options: asked });
  tell("Recording the next token…");
  show(idle ? "writing" : state);
});
element("beginnings").append(
  ...BEGINNINGS.map((beginning) => {
    const button = made("button", { type: "button", textContent: beginning.trim() });
    button.addEventListener("click", () => {
      element("prompt").value = beginning;
      element("prompt").focus();
    });
    return button;
  }),
);
element("prompt").value = BEGINNINGS[0];
show();
