/** Where the agent keeps what it pulled. */
import type { AgentStore } from "./api";

const PLACE = "tapml-agent";

/** The browser's Cache API; nothing is kept where there is none (a page that is not a secure context). */
export async function browserStore(): Promise<AgentStore> {
  if (!("caches" in globalThis)) return memoryStore();
  const cache = await caches.open(PLACE);
  const url = (key: string) => `https://tapml.invalid/agent/${key}`;
  return {
    async get(key) {
      const found = await cache.match(url(key));
      return found === undefined ? null : new Uint8Array(await found.arrayBuffer());
    },
    async set(key, value) {
      await cache.put(url(key), new Response(value));
    },
    async delete(key) {
      await cache.delete(url(key));
    },
  };
}

export function memoryStore(): AgentStore {
  const kept = new Map<string, Uint8Array<ArrayBuffer>>();
  return {
    get: async (key) => kept.get(key) ?? null,
    set: async (key, value) => void kept.set(key, value),
    delete: async (key) => void kept.delete(key),
  };
}
