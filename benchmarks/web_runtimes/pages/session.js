// One load of a page: which runtime, and what is measured, is in its address. Ends with going to where the server says.
const asked = new URLSearchParams(location.search);
export const [runtime, what] = [asked.get("runtime"), asked.get("what")];

export async function told(path, body) {
  const response = await fetch(path, { method: "POST", body: JSON.stringify(body ?? null), cache: "no-store" });
  return response.json();
}

/** The browser's facts, when its GPU process is there, which no runtime shall wait for. */
export async function started() {
  while (!(await (await navigator.gpu?.requestAdapter())?.requestDevice()))
    await new Promise((resolve) => setTimeout(resolve, 100));
  const { vendor, architecture, description } = (await navigator.gpu.requestAdapter()).info;
  return { userAgent: navigator.userAgent, adapter: { vendor, architecture, description } };
}

/** Tells the server what `measured` gives, `wait` ms after it, and goes on. */
export async function report(measured, wait = 0) {
  let result;
  try {
    result = await measured();
  } catch (cause) {
    result = { error: String(cause?.stack ?? cause) };
  }
  await new Promise((resolve) => setTimeout(resolve, wait));
  const { next } = await told("/result", { runtime, what, ...result });
  if (next) location.href = next;
}
