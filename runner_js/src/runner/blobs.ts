import { DeviceFailure } from "../hal/errors";
import type { Digest } from "../protocol/messages";
import { Lru } from "./lru";

/** Fetches under way at a time. */
const CONCURRENCY = 8;
/** An operator's expected output is the next one's input: keep what was fetched for a moment. */
const KEEP_BYTES = 128 << 20;

/** Bytes from `/blobs/<digest>`; each is fetched once at a time, and the browser's HTTP cache keeps them. */
export class Blobs {
  private readonly recent = new Lru<ArrayBuffer>(KEEP_BYTES);
  private readonly underway = new Map<Digest, { loading: Promise<ArrayBuffer>; signal: AbortSignal }>();
  private readonly waiting: (() => void)[] = [];
  private running = 0;

  async text(digest: Digest, signal: AbortSignal): Promise<string> {
    return new TextDecoder().decode(await this.load(digest, null, signal));
  }

  /** `bytes`: the length it must have. Throws a DeviceFailure of kind "fetch" that names the digest. */
  async load(digest: Digest, bytes: number | null, signal: AbortSignal): Promise<ArrayBuffer> {
    const data = this.recent.get(digest) ?? (await this.fetchOnce(digest, signal));
    if (bytes !== null && data.byteLength !== bytes) {
      throw failure(digest, `has ${data.byteLength} bytes where its shape and dtype make ${bytes}`);
    }
    return data;
  }

  private fetchOnce(digest: Digest, signal: AbortSignal): Promise<ArrayBuffer> {
    const known = this.underway.get(digest);
    // A fetch that an abandoned call started is about to fail.
    if (known && !known.signal.aborted) return known.loading;
    const loading = this.inTurn(() => fetchBlob(digest, signal))
      .then((data) => {
        if (data.byteLength <= KEEP_BYTES / 4 && !this.recent.has(digest)) {
          this.recent.set(digest, data, data.byteLength);
        }
        return data;
      })
      .finally(() => {
        if (this.underway.get(digest)?.loading === loading) this.underway.delete(digest);
      });
    this.underway.set(digest, { loading, signal });
    return loading;
  }

  private async inTurn<T>(work: () => Promise<T>): Promise<T> {
    while (this.running >= CONCURRENCY) await new Promise<void>((resolve) => this.waiting.push(resolve));
    this.running++;
    try {
      return await work();
    } finally {
      this.running--;
      this.waiting.shift()?.();
    }
  }
}

async function fetchBlob(digest: Digest, signal: AbortSignal): Promise<ArrayBuffer> {
  let response: Response;
  try {
    response = await fetch(`/blobs/${digest}`, { signal });
    if (response.ok) return await response.arrayBuffer();
  } catch (cause) {
    throw failure(digest, `could not be fetched: ${cause instanceof Error ? cause.message : cause}`);
  }
  throw failure(digest, `could not be fetched: HTTP ${response.status}, ${await errorText(response)}`);
}

/** The sentence of an HTTP API error, {"error": sentence}. */
async function errorText(response: Response): Promise<string> {
  const text = await response.text().catch(() => "");
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body === "object" && body !== null && "error" in body) return String(body.error);
  } catch {
    // A proxy's own page, perhaps.
  }
  return text.slice(0, 200) || response.statusText;
}

function failure(digest: Digest, what: string): DeviceFailure {
  return new DeviceFailure({ kind: "fetch", message: `blob ${digest} ${what}` });
}

/** Sends a call's downloads, one after the other in one body. */
export async function postDownloads(call: string, body: Blob, signal: AbortSignal): Promise<void> {
  const headers = { "Content-Type": "application/octet-stream", "X-Tapml": "1" };
  let response: Response;
  try {
    response = await fetch(`/api/calls/${encodeURIComponent(call)}/downloads`, {
      method: "POST",
      headers,
      body,
      signal,
    });
  } catch (cause) {
    const message = `the downloads could not be sent: ${cause instanceof Error ? cause.message : cause}`;
    throw new DeviceFailure({ kind: "fetch", message });
  }
  if (!response.ok) {
    const message = `the downloads were refused: HTTP ${response.status}, ${await errorText(response)}`;
    throw new DeviceFailure({ kind: "fetch", message });
  }
}
