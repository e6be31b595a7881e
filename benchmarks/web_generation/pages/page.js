import { idle, watch } from "./passes.js";
import { report, runtime, started, what } from "./session.js";

/**
 * The text three times: first what is made once (pipelines, buffers of each size), then the time that counts, then with
 * timestamps, from the first token on, whose writing takes time of its own.
 */
async function measured() {
  if (what === "start") return started();
  const { prompt, tokens } = await (await fetch("asked.json")).json();
  const { start } = await import(`./${runtime}.js`);
  const write = await start();
  const loaded = performance.now();
  const first = await write(prompt, tokens);
  const second = await write(prompt, tokens);
  const third = await write(prompt, tokens, watch);
  return { loaded, first, third, ...second, idle: await idle() };
}

await report(measured);
