import { DeviceFailure } from "../hal/errors";
import { Lru } from "../hal/lru";
import { type Digest, MAX_WGSL_BYTES } from "../protocol/messages";

/** Fetches under way at a time. */
const CONCURRENCY = 8;
/** An operator's expected output is the next one's input: keep what was fetched for a moment. */
const KEEP_BYTES = 128 << 20;
/** Blobs up to this size travel together: in Firefox a request costs 7 ms, however small. */
const SMALL_BYTES = 64 << 10;
const UNCACHED_BYTES = 32 << 20;
/** The server's limit. */
const GROUP = 64;
const NETWORK_TIMEOUT_MS = 30_000;
const RETRY_MS = 500;
const MOST_BREAKS = 3;

interface Group {
  signal: AbortSignal;
  members: { digest: Digest; bytes: number; resolve: (data: ArrayBuffer | null) => void }[];
}

/** Bytes from `/blobs/<digest>`; each is fetched once at a time, and the browser's HTTP cache keeps them. */
export class Blobs {
  private readonly recent = new Lru<ArrayBuffer>(KEEP_BYTES);
  private readonly underway = new Map<Digest, { loading: Promise<ArrayBuffer>; signal: AbortSignal }>();
  private readonly waiting: (() => void)[] = [];
  private running = 0;
  private group: Group | null = null;

  /** `origin`: the server's, with the path of a shared link where it is one; `headers` go with every request, where cookies do not by themselves. */
  constructor(
    private readonly origin: string,
    private readonly headers: Record<string, string> = {},
  ) {}

  /** A request that outlives a broken network: tried again for half a minute. Other errors are thrown as they are. */
  async request(path: string, init: RequestInit & { signal: AbortSignal }): Promise<Response> {
    const headers = { ...this.headers, ...(init.headers as Record<string, string> | undefined) };
    const deadline = performance.now() + NETWORK_TIMEOUT_MS;
    for (;;) {
      try {
        return await fetch(this.origin + path, { ...init, headers });
      } catch (cause) {
        // A TypeError is all that fetch gives for a network that fails.
        if (!(cause instanceof TypeError) || init.signal.aborted || performance.now() > deadline) throw cause;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  /** The bytes in pieces as they arrive, whole words each but for the last; none is held here. */
  async *stream(digest: Digest, bytes: number, signal: AbortSignal): AsyncGenerator<Uint8Array<ArrayBuffer>> {
    let rest = new Uint8Array(0);
    let total = 0;
    for await (const value of this.received(digest, signal)) {
      total += value.byteLength;
      if (total > bytes) break;
      const piece = rest.byteLength ? joined(rest, value) : value;
      const whole = piece.byteLength & ~3;
      rest = piece.slice(whole);
      if (whole) yield piece.subarray(0, whole);
    }
    if (total !== bytes) throw failure(digest, `has ${total} bytes where its shape and dtype make ${bytes}`);
    if (rest.byteLength) yield rest;
  }

  /** A body as it arrives. Where the network breaks in the middle it is asked for again, from where it broke. */
  private async *received(digest: Digest, signal: AbortSignal): AsyncGenerator<Uint8Array<ArrayBuffer>> {
    let given = 0;
    for (let breaks = 0; ; breaks++) {
      const response = await this.request(`/blobs/${digest}`, { cache: "no-store", signal });
      if (!response.ok || !response.body) {
        throw failure(digest, `could not be fetched: HTTP ${response.status}, ${await errorText(response)}`);
      }
      const reader = (response.body as ReadableStream<Uint8Array<ArrayBuffer>>).getReader();
      let position = 0;
      try {
        for (;;) {
          const { done, value } = await reader.read();
          if (done) return;
          const known = Math.min(value.byteLength, Math.max(0, given - position));
          position += value.byteLength;
          if (known === value.byteLength) continue;
          given = position;
          yield value.subarray(known);
        }
      } catch (cause) {
        if (signal.aborted || breaks >= MOST_BREAKS) {
          throw failure(digest, `could not be fetched: ${cause instanceof Error ? cause.message : cause}`);
        }
      } finally {
        void reader.cancel().catch(() => {});
      }
    }
  }

  /** A WGSL file. Throws a DeviceFailure of kind "compile" for one of more than MAX_WGSL_BYTES. */
  async wgsl(digest: Digest, file: string, signal: AbortSignal): Promise<string> {
    const data = await this.load(digest, null, signal);
    if (data.byteLength <= MAX_WGSL_BYTES) return new TextDecoder().decode(data);
    const message = `${file}: has more than the ${MAX_WGSL_BYTES / 1e6} MB that a WGSL file may have`;
    throw new DeviceFailure({ kind: "compile", message });
  }

  /** `bytes`: the length it must have. Throws a DeviceFailure of kind "fetch" that names the digest. */
  async load(digest: Digest, bytes: number | null, signal: AbortSignal): Promise<ArrayBuffer> {
    const data = this.recent.get(digest) ?? (await this.fetchOnce(digest, bytes, signal));
    if (bytes !== null && data.byteLength !== bytes) {
      throw failure(digest, `has ${data.byteLength} bytes where its shape and dtype make ${bytes}`);
    }
    return data;
  }

  private fetchOnce(digest: Digest, bytes: number | null, signal: AbortSignal): Promise<ArrayBuffer> {
    const known = this.underway.get(digest);
    // A fetch that an abandoned call started is about to fail.
    if (known && !known.signal.aborted) return known.loading;
    const small = bytes !== null && bytes <= SMALL_BYTES;
    // Firefox spends half a second on trying to cache 47 MB, and keeps nothing over 50.
    const cache: RequestCache = bytes !== null && bytes > UNCACHED_BYTES ? "no-store" : "default";
    const alone = () => this.inTurn(() => this.fetchBlob(digest, cache, signal));
    const loading = (small ? this.inGroup(digest, bytes, signal).then((data) => data ?? alone()) : alone())
      .then((data) => {
        if (data.byteLength <= KEEP_BYTES / 2 && !this.recent.has(digest)) {
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

  /** Null where the group did not come as announced: then the blob's own request says what is wrong. */
  private inGroup(digest: Digest, bytes: number, signal: AbortSignal): Promise<ArrayBuffer | null> {
    return new Promise((resolve) => {
      let group = this.group;
      if (group?.signal !== signal || group.members.length >= GROUP) {
        group = { signal, members: [] };
        this.group = group;
        const sent = group;
        // All loads of a batch are asked for in the same turn of the event loop.
        setTimeout(() => {
          if (this.group === sent) this.group = null;
          void this.inTurn(() => this.fetchGroup(sent)).catch(() => {
            for (const member of sent.members) member.resolve(null);
          });
        });
      }
      group.members.push({ digest, bytes, resolve });
    });
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

  private async fetchGroup({ members, signal }: Group): Promise<void> {
    const digests = members.map((member) => member.digest).join("+");
    const response = await this.request(`/blobs/${digests}`, { signal });
    const data = await response.arrayBuffer();
    const total = members.reduce((sum, member) => sum + member.bytes, 0);
    const whole = response.ok && data.byteLength === total;
    let start = 0;
    for (const { bytes, resolve } of members) {
      resolve(whole ? data.slice(start, start + bytes) : null);
      start += bytes;
    }
  }

  private async fetchBlob(digest: Digest, cache: RequestCache, signal: AbortSignal): Promise<ArrayBuffer> {
    let response: Response;
    try {
      response = await this.request(`/blobs/${digest}`, { cache, signal });
      if (response.ok) {
        // The network may break in the middle of a body too.
        return await response
          .arrayBuffer()
          .catch(async () => (await this.request(`/blobs/${digest}`, { cache, signal })).arrayBuffer());
      }
    } catch (cause) {
      throw failure(digest, `could not be fetched: ${cause instanceof Error ? cause.message : cause}`);
    }
    throw failure(digest, `could not be fetched: HTTP ${response.status}, ${await errorText(response)}`);
  }
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(first.byteLength + second.byteLength);
  both.set(first);
  both.set(second, first.byteLength);
  return both;
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
export async function postDownloads(
  blobs: Blobs,
  call: string,
  downloads: readonly Uint8Array<ArrayBuffer>[],
  signal: AbortSignal,
): Promise<void> {
  // A copy, and yet far faster: Chromium sends 16 MB/s of a mapped buffer as it is, 250 of a Blob.
  const blob = new Blob([...downloads]);
  const body = blob.size > 0 ? blob : ""; // Deno sends an empty Blob without its length
  const headers = { "Content-Type": "application/octet-stream", "X-Tapml": "1" };
  let response: Response;
  try {
    const path = `/api/calls/${encodeURIComponent(call)}/downloads`;
    response = await blobs.request(path, { method: "POST", headers, body, signal });
  } catch (cause) {
    const message = `the downloads could not be sent: ${cause instanceof Error ? cause.message : cause}`;
    throw new DeviceFailure({ kind: "fetch", message });
  }
  if (!response.ok) {
    const message = `the downloads were refused: HTTP ${response.status}, ${await errorText(response)}`;
    throw new DeviceFailure({ kind: "fetch", message });
  }
}
