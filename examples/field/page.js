/**
 * A device of the field (docs/field.md): asks what it is to hold, pulls and checks it, runs the model, reports, and
 * sends a sample of what its GPU computed where the page's consent allows it.
 *
 * The address's fragment says which device this is: #device=NAME&consent=yes.
 */
import { load } from "../../runtime/tapml-runtime.js";

const told = new URLSearchParams(location.hash.slice(1));
/** A page of your own draws it once, and keeps it. */
const device = told.get("device") ?? `page-${crypto.randomUUID()}`;
/** By which versions are checked (?key=PUBLIC_KEY): a page of your own has it in its text. */
const key = new URLSearchParams(location.search).get("key");
const without = told.getAll("without");
/** How large the values are that this device's user has: the lab's are 0.1. */
const scale = Number(told.get("scale") ?? 0.1);
const EVERY_MS = Number(told.get("every") ?? 2000);
const SERVICE = new URL("../../", import.meta.url);
const SHAPE = [48, 32];

const element = (id) => document.getElementById(id);
const consent = element("consent");
consent.checked = told.get("consent") === "yes" || told.has("simulation");

/** What this device holds: version by task, and the model of each. */
const held = new Map();

const { gpu, info } = await gpuDevice();
for (;;) {
  try {
    await turn();
  } catch (error) {
    element("status").textContent = String(error);
    console.error(String(error));
  }
  // Not all devices at once.
  await new Promise((resolve) => setTimeout(resolve, EVERY_MS * (0.75 + Math.random() / 2)));
}

async function turn() {
  const answer = await (await asked("field/answer")).json();
  for (const task of answer.remove) drop(task);
  for (const offer of answer.install) await install(offer);
  for (const [task, holding] of held) await run(task, holding);
  element("status").textContent = `${device} holds ${JSON.stringify(holds())}`;
}

async function install(offer) {
  const { task, version, sampling } = offer;
  try {
    const model = await load("model/", { device: gpu, fetch: await pull(offer), cache: false, unvalidated: "ignore" });
    drop(task);
    held.set(task, { version, sampling, model, reported: false });
  } catch (error) {
    await report(task, version, { failed: true });
    throw error;
  }
}

/** The version's model folder, checked: by the page's key, and each file by its digest. This is the agent's part. */
async function pull({ manifest }) {
  const document = await bytes(`field/manifests/${manifest}.json`);
  const signature = await bytes(`field/manifests/${manifest}.sig`);
  if (!key) throw new Error("this page has no key: nothing that it is offered is run");
  const jwk = { kty: "OKP", crv: "Ed25519", x: key };
  const publicKey = await crypto.subtle.importKey("jwk", jwk, "Ed25519", false, ["verify"]);
  const signed = new Uint8Array([...new TextEncoder().encode("tapml.task/1\0"), ...document]);
  if (!(await crypto.subtle.verify("Ed25519", publicKey, signature, signed)))
    throw new Error(`the manifest ${manifest} is not signed by this page's key`);
  const files = new Map(JSON.parse(new TextDecoder().decode(document)).shared.map((file) => [file.path, file.sha256]));
  const base = new URL("model/", location.href).href;
  return async (address, options) => {
    const url = new URL(address instanceof Request ? address.url : address, location.href).href;
    const digest = url.startsWith(base) ? files.get(`model.tapml/${url.slice(base.length)}`) : undefined;
    if (!digest) return new Response("there is no such file", { status: 404 });
    const response = await fetch(new URL(`field/blobs/${digest}`, SERVICE), { ...options, cache: "force-cache" });
    if (!response.ok) return response;
    const data = await response.arrayBuffer();
    if ((await digestOf(data)) !== digest) throw new Error(`${address} is damaged, or is not what was signed`);
    return new Response(data);
  };
}

function drop(task) {
  held.get(task)?.model.dispose();
  held.delete(task);
}

/** A run of the model with the user's data; the first one of a version is reported. */
async function run(task, holding) {
  const { model, version, sampling } = holding;
  const words = Float32Array.from({ length: SHAPE[0] * SHAPE[1] }, () => scale * normal());
  const sample = sampling && consent.checked && Math.random() < sampling.runs;
  const captured = sample ? model.capture({ sample: sampling.operators }) : null;
  captured?.catch(() => {}); // where the run fails, so does its capture
  const begun = performance.now();
  let failed = false;
  try {
    await model.run({ words: { data: words, shape: SHAPE } });
    if (captured) await send(task, version, (await captured).file);
  } catch (error) {
    failed = true;
    console.error(String(error));
  }
  if (holding.reported) return;
  holding.reported = true;
  await report(task, version, { failed, ms: captured ? undefined : performance.now() - begun });
}

async function send(task, version, file) {
  const query = new URLSearchParams({ task, version });
  const response = await asked(`field/samples?${query}`, { method: "POST", body: file });
  element("sent").textContent += `a call of ${task} ${version}: ${file.size} bytes, ${await response.text()}\n`;
}

async function report(task, version, result) {
  const body = JSON.stringify({ task, version, ...result });
  await asked("field/reports", { method: "POST", body, headers: { "Content-Type": "application/json" } });
}

async function asked(path, { headers = {}, ...options } = {}) {
  const profile = JSON.stringify({ device, app: "1.0", browser: browser(), gpu: info, holds: holds() });
  const all = { ...headers, "Tapml-Profile": profile };
  const response = await fetch(new URL(path, SERVICE), { ...options, headers: all });
  if (!response.ok) throw new Error(`${path}: ${await response.text()}`);
  return response;
}

async function bytes(path) {
  return new Uint8Array(await (await asked(path)).arrayBuffer());
}

function holds() {
  return Object.fromEntries([...held].map(([task, { version }]) => [task, version]));
}

function browser() {
  const [, name, version] = /(Firefox|Chrom\w*|Version)\/(\d+)/.exec(navigator.userAgent) ?? [];
  const names = { Firefox: "firefox", Version: "safari" };
  return { name: names[name] ?? "chromium", version: Number(version ?? 0) };
}

/** A GPU device as this page's kind has it: without the features that it is told to go without. */
async function gpuDevice() {
  const adapter = await navigator.gpu.requestAdapter();
  // A feature may bring another one along: "subgroup-size-control" has "subgroups".
  const stems = without.map((name) => name.replace(/s$/, ""));
  const features = [...adapter.features].filter((name) => !stems.some((stem) => name.startsWith(stem)));
  const { vendor = "", architecture = "" } = adapter.info ?? {};
  const gpu = await adapter.requestDevice({ requiredFeatures: features });
  if (without.some((name) => gpu.features.has(name))) throw new Error(`this GPU is never without ${without}`);
  return { gpu, info: { vendor, architecture } };
}

async function digestOf(data) {
  const found = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  return [...found].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Box and Muller's. */
function normal() {
  return Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
}
