/** The task profile: what the page's ordinary requests tell of this device. */
import type { AgentOptions, AgentStore } from "./api";
import { AgentError } from "./error";

/** Of the header, as the service reads it. */
const MOST_BYTES = 4096;
/** By the engine: what is built on Chromium is Chromium. */
const ENGINES: [string, RegExp][] = [
  ["firefox", /\bFirefox\/(\d+)/],
  ["chromium", /\b(?:Headless)?Chrom(?:e|ium)\/(\d+)/],
  ["safari", /\bVersion\/(\d+).*\bSafari\//],
];

export function browserOf(userAgent: string): { name: string; version: number } {
  for (const [name, pattern] of ENGINES) {
    const version = pattern.exec(userAgent)?.[1];
    if (version !== undefined) return { name, version: Number(version) };
  }
  return { name: "other", version: 0 };
}

/** 22 characters at random. */
export function drawDevice(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(22));
  return Array.from(
    bytes,
    (byte) => "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[byte & 63],
  ).join("");
}

/** The header's value, in ASCII. Throws an AgentError where it is too long. */
export function profileHeader(device: string, options: AgentOptions, holds: Record<string, string>): string {
  const { app, gpu, speed, attributes } = options;
  const browser = browserOf(globalThis.navigator?.userAgent ?? "");
  const profile = {
    device,
    app,
    browser,
    ...(gpu && { gpu }),
    speed,
    ...(attributes && { attributes }),
    holds,
  };
  const text = JSON.stringify(profile).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  if (text.length > MOST_BYTES)
    throw new AgentError(
      "input",
      `the profile has ${text.length} bytes, and at most ${MOST_BYTES} are read`,
      "declare fewer attributes",
    );
  return text;
}

const DEVICE = /^[A-Za-z0-9_-]{16,64}$/;

/** The device's name, which is drawn once; or the one that the page was told. */
export async function deviceOf(store: AgentStore, told?: string): Promise<string> {
  if (told !== undefined) {
    if (DEVICE.test(told)) return told;
    throw new AgentError(
      "input",
      `${JSON.stringify(told)} is no name of a device`,
      "give 16 to 64 of A-Z, a-z, 0-9, - and _",
    );
  }
  const kept = await store.get("device");
  const name = kept === null ? "" : new TextDecoder().decode(kept);
  if (DEVICE.test(name)) return name;
  const drawn = drawDevice();
  await store.set("device", new TextEncoder().encode(drawn)).catch(() => {});
  return drawn;
}
