import { report, runtime, started, told, what } from "./session.js";

async function measured() {
  if (what === "start") return started();
  const counter = what === "memory" ? (await import("./counter.js")).counted() : null;
  const { start } = await import(`./${runtime}.js`);
  const embed = await start();
  const loaded = performance.now();
  const embedding = await embed();
  const first = performance.now();
  const found = { loaded, first, embedding: Array.from(embedding) };
  if (what === "memory") {
    await embed();
    return { ...found, memory: counter.memory(), ...(await counter.call(embed)) };
  }
  if (what === "host") return { ...found, ...(await (await import("./host.js")).hostCost(embed, told)) };
  return found;
}

// Until what the first load brought is in the caches, which nobody waits for.
await report(measured, what === "cold" ? 2000 : 0);
