/** Tasks of a service in memory, signed as `tapml field publish` signs them: for node and pages. */
export const SERVICE = "https://field.example/field/";

const bytes = (value) => new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value));
const digest = async (data) =>
  Array.from(new Uint8Array(await crypto.subtle.digest("SHA-256", data)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** `tasks`: of each SCENARIO/TASK its files. Gives what createAgent is given: `key` and `fetch`. */
export async function published(tasks) {
  const pair = await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"]);
  const served = new Map();
  const install = [];
  for (const [task, files] of Object.entries(tasks)) {
    const shared = [];
    for (const [path, content] of Object.entries(files)) {
      const data = bytes(content);
      const sha256 = await digest(data);
      shared.push({ path, sha256, bytes: data.length });
      served.set(`blobs/${sha256}`, data);
    }
    const document = JSON.stringify({ format: "tapml.task/1", task, version: "1", shared, exclusive: null });
    const manifest = await digest(bytes(document));
    served.set(`manifests/${manifest}.json`, bytes(document));
    const signature = await crypto.subtle.sign("Ed25519", pair.privateKey, bytes(`tapml.task/1\0${document}`));
    served.set(`manifests/${manifest}.sig`, signature);
    install.push({ task, version: "1", manifest });
  }
  served.set("answer", bytes({ install, remove: [] }));
  const { x } = await crypto.subtle.exportKey("jwk", pair.publicKey);
  const fetch = async (url) => new Response(served.get(String(url).replace(SERVICE, "")) ?? null);
  return { key: x, fetch };
}
