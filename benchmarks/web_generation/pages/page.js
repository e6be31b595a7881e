import { report, runtime, started, what } from "./session.js";

/** The text twice: first what is made once (pipelines, buffers of each size), then the time that counts. */
async function measured() {
  if (what === "start") return started();
  const { prompt, tokens } = await (await fetch("asked.json")).json();
  const { start } = await import(`./${runtime}.js`);
  const write = await start();
  const loaded = performance.now();
  const first = await write(prompt, tokens);
  return { loaded, first, ...(await write(prompt, tokens)) };
}

await report(measured);
