import { passes, watch } from "./passes.js";
import { report, runtime, started, what } from "./session.js";

/** The GPU's ms of calls of prefill and decode, and the logits that they give. */
async function measured() {
  if (what === "start") return started();
  const [kind, name] = runtime.split(" ");
  const asked = await (await fetch("asked.json")).json();
  const { prompt, context } = asked;
  const { start } = await import(kind === "ours" ? "./ours.js" : "./peer.js");
  const begun = performance.now();
  const model = await start(name, asked, kind);
  const loaded = performance.now() - begun;
  const text = Array.from({ length: context + 1 }, (_, at) => (at * 7919 + 17) % asked.vocabulary);
  const prefill = await timed(() => model.call(text, 0, prompt), asked);
  prefill.logits = await model.logits(text, 0, prompt);
  await model.fill(text, context);
  const decode = await timed(() => model.call(text, context, context + 1), asked);
  decode.logits = await model.logits(text, context, context + 1);
  return { loaded, prefill, decode };
}

/** Of calls one after the other, behind some that warm the GPU up: ms of each in which a compute pass runs. */
async function timed(run, { warm, rounds }) {
  const begun = performance.now();
  await run();
  const first = performance.now() - begun;
  const until = performance.now() + warm;
  while (performance.now() < until) await run();
  const gpu = [];
  const whole = [];
  let count = 0;
  for (let round = 0; round < rounds; round++) {
    const from = performance.now();
    await run();
    whole.push(performance.now() - from);
    watch();
    await run();
    const found = await passes();
    if (!found) break;
    gpu.push(found.busy / 1e6);
    count = found.count;
  }
  return { gpu, whole, first, passes: count };
}

await report(measured);
