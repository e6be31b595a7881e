/**
 * Pages of items, with an agent of the field (docs/field.md): when a page is left, a task makes 128 bytes of what happened
 * on it, here. A second task sends every event as it is, for comparison.
 */
import { load } from "../../runtime/tapml-runtime.js";
import { createAgent } from "../../static/agent/tapml-agent.js";
import { collect, startByEvents } from "../../static/agent/tapml-events.js";
import { Tunnel } from "../../static/agent/tapml-tunnel.js";

/** A page of your own has them in its text: the key whose versions it runs, and the service's tunnel. */
const { key, tunnel: url } = Object.fromEntries(new URLSearchParams(location.search));
const TASK = "features/page-view";
const INTEREST_MILLISECONDS = 60_000;
const OTHERS = 24;

const element = (id) => document.getElementById(id);

/** By topic, how many items of the last minute were seen or clicked: what streams are for. */
function interestOf(processor) {
  let until = 0;
  let counts = {};
  processor
    .stream("interest")
    .filter(({ kind, contents }) => (kind === "exposure" || kind === "click") && contents.keywords?.length > 0)
    .map(({ contents }) => contents.keywords[0])
    .keyBy((topic) => topic)
    .timeWindow({ milliseconds: INTEREST_MILLISECONDS, every: 1000 })
    .each((window) => {
      if (window.until !== until) counts = {};
      until = window.until;
      counts[window.key] = window.values.length;
    });
  return () => counts;
}

function marked(node, item, position) {
  node.dataset.tapmlId = item.name;
  node.dataset.tapmlContents = JSON.stringify({ ...item, position });
  return node;
}

function text(tag, content) {
  const node = document.createElement(tag);
  node.textContent = content;
  return node;
}

/** One item, and others that share most words with it. */
function show(items, name, open) {
  const item = items.find((one) => one.name === name);
  const article = marked(document.createElement("article"), item, 0);
  article.id = "item";
  article.append(text("h1", item.name), text("p", item.summary), text("p", item.keywords.join(", ")));
  element("item").replaceWith(article);
  const words = new Set(item.summary.toLowerCase().split(" "));
  const common = (one) => one.summary.toLowerCase().split(" ").filter((word) => words.has(word)).length;
  const others = items.filter((one) => one !== item).sort((one, other) => common(other) - common(one));
  element("others").replaceChildren(
    ...others.slice(0, OTHERS).map((other, at) => {
      const card = marked(document.createElement("button"), other, at + 1);
      card.append(text("b", other.name), text("div", other.summary));
      card.addEventListener("click", () => open(other.name));
      const row = document.createElement("li");
      row.append(card);
      return row;
    }),
  );
  scrollTo(0, 0);
}

async function begin() {
  const agent = await createAgent({ service: new URL("../../field/", location.href), key, app: "1.0", load });
  const failed = [];
  const views = [];
  agent.on("failed", ({ task, message }) => failed.push(`${task}: ${message}`));
  agent.on("emitted", ({ name, value, at }) => {
    if (name === "encoding") views.push({ ...value, ms: at - value.at });
    element("status").textContent = `${views.length} pages were left`;
  });
  const sizes = [];
  agent.on("ran", ({ task, result, ms }) => task === TASK && result && sizes.push({ ...result, ms }));
  const tunnel = new Tunnel(agent, { url, consent: () => true });
  await agent.pull();
  const items = await (await fetch("../items.json")).json();

  const processor = startByEvents(agent);
  const interest = interestOf(processor);
  const allow = (event) => (event.kind === "exit" ? { ...event, contents: { interest: interest() } } : event);
  let leave = () => {};
  const open = (name) => {
    leave();
    show(items, name, open);
    leave = collect(processor, { page: `item:${name}`, allow });
  };
  globalThis.told = () => ({ views, sizes, failed });
  open(items[0].name);
  element("status").textContent = "";
}

/** For who drives this page. */
globalThis.ready = begin();
globalThis.ready.catch((error) => {
  element("status").textContent = String(error);
});
