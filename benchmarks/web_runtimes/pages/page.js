// One load of the page: which runtime, and what is measured, is in its address. Ends with going to where the server says.
const asked = new URLSearchParams(location.search);
const [runtime, what] = [asked.get("runtime"), asked.get("what")];

async function told(path, body) {
  const response = await fetch(path, { method: "POST", body: JSON.stringify(body ?? null), cache: "no-store" });
  return response.json();
}

async function measured() {
  if (what === "start") {
    // Until the browser's GPU process is there, which no runtime shall wait for.
    while (!(await (await navigator.gpu?.requestAdapter())?.requestDevice()))
      await new Promise((resolve) => setTimeout(resolve, 100));
    const { vendor, architecture, description } = (await navigator.gpu.requestAdapter()).info;
    return { userAgent: navigator.userAgent, adapter: { vendor, architecture, description } };
  }
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

let result;
try {
  result = await measured();
} catch (cause) {
  result = { error: String(cause?.stack ?? cause) };
}
// Until what the first load brought is in the caches, which nobody waits for.
if (what === "cold") await new Promise((resolve) => setTimeout(resolve, 2000));
const { next } = await told("/result", { runtime, what, ...result });
if (next) location.href = next;
