import type { Shard } from "../compiled/generated/model";
import { TapmlError } from "./error";

const MAGIC = "TAPMLM1\n";
const HEADER_BYTES = 16;
/** What is asked for first of a single file: its document, of most models. */
const FIRST_BYTES = 1 << 20;
const ALIGNMENT = 256;
/** Of model.json. */
const MOST_DOCUMENT_BYTES = 256 << 20;
const CACHE = "tapml";
/** Shards on their way to it, which memory holds. */
const MOST_KEEPING = 6;
/** Digests name the bytes, wherever they came from: models of one origin share them. */
const CACHED = "https://tapml.invalid/sha256/";

export type Fetch = (url: string, init?: RequestInit) => Promise<Response>;
export type Received = (bytes: number) => void;

/** Bytes of the files that a model is made of, by digest. */
export interface Source {
  readonly document: unknown;
  /** Throws a TapmlError of kind "download" that names the digest. */
  shard(index: number, received: Received, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>>;
  file(name: string, sha256: string, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>>;
  /** Each shard was read once: nothing of them needs to be kept. */
  loaded(): void;
}

interface Place {
  url: string;
  /** Of the file at `url`; all of it where there is none. */
  range?: readonly [start: number, end: number];
}

/** Finds out what is at `url`: a folder of a model, its model.json, or a single file. */
export async function openSource(
  url: string,
  get: Fetch,
  cached: boolean,
  signal: AbortSignal,
): Promise<Source> {
  const base = typeof location === "undefined" ? undefined : location.href;
  if (!base && !URL.canParse(url)) throw notAModel(url, "is no complete address");
  const address = new URL(url, base);
  if (address.pathname.endsWith("/")) address.pathname += "model.json";
  const at = address.href;
  const headers = address.pathname.endsWith(".json") ? {} : { Range: `bytes=0-${FIRST_BYTES - 1}` };
  const response = await requested(get, at, { headers, signal });
  if (response.status !== 206 && !response.ok) {
    await response.body?.cancel();
    throw new TapmlError("download", `${at} gives HTTP ${response.status}`, "check the address of the model");
  }
  const first = new Uint8Array(await arrived(at, response.arrayBuffer(), signal));
  if (startsWithMagic(first)) return single(at, first, response.status === 206, get, cached, signal);
  const document = parsed(at, first);
  return new Files(document, (name) => ({ url: new URL(name, at).href }), get, cached);
}

async function single(
  url: string,
  first: Uint8Array<ArrayBuffer>,
  ranges: boolean,
  get: Fetch,
  cached: boolean,
  signal: AbortSignal,
): Promise<Source> {
  const length = new DataView(first.buffer).getBigUint64(MAGIC.length, true);
  const end = HEADER_BYTES + Number(length);
  if (length > BigInt(MOST_DOCUMENT_BYTES) || (!ranges && end > first.length)) {
    throw notAModel(url, `is cut off: its document ends at byte ${end}`);
  }
  let text = first.subarray(HEADER_BYTES, end);
  if (end > first.length) {
    const place = { url, range: [HEADER_BYTES, end] as const };
    text = await received(get, place, end - HEADER_BYTES, () => {}, "default", signal);
  }
  const document = parsed(url, text);
  const places = placesOf(document, end);
  // A server that knows no ranges has sent all of it, and would again.
  const whole = ranges ? null : first;
  return new Files(
    document,
    (name) => {
      const range = places.get(name);
      if (!range) throw notAModel(url, `has no ${name}`);
      return { url, range };
    },
    get,
    cached,
    whole,
  );
}

/** Where the files of a single file lie in it, by name. The document is not verified yet: what is wrong gives no place. */
function placesOf(document: unknown, end: number): Map<string, [number, number]> {
  const { weights, attachments } = document as {
    weights?: { shards?: { sha256: string; bytes: number }[] };
    attachments?: { name: string; bytes: number }[];
  };
  const places = new Map<string, [number, number]>();
  let at = end;
  const put = (name: string, bytes: number) => {
    at = Math.ceil(at / ALIGNMENT) * ALIGNMENT;
    places.set(name, [at, at + bytes]);
    at += bytes;
  };
  if (Array.isArray(weights?.shards)) {
    for (const shard of weights.shards) if (shard) put(shardName(shard.sha256), Number(shard.bytes));
  }
  if (Array.isArray(attachments))
    for (const file of attachments) if (file) put(file.name, Number(file.bytes));
  return places;
}

const shardName = (sha256: string) => `weights/${sha256}.bin`;

class Files implements Source {
  readonly #keeping = new Set<Promise<void>>();

  constructor(
    readonly document: unknown,
    private readonly place: (name: string) => Place,
    private readonly get: Fetch,
    private readonly cached: boolean,
    /** A single file that came whole with its document; let go once each shard was read. */
    private whole: Uint8Array<ArrayBuffer> | null = null,
  ) {}

  async shard(index: number, progress: Received, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    const shard = (this.document as { weights: { shards: Shard[] } }).weights.shards[index] as Shard;
    return this.#digested(shardName(shard.sha256), shard.sha256, shard.bytes, progress, signal);
  }

  file(name: string, sha256: string, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    return this.#digested(name, sha256, null, () => {}, signal);
  }

  loaded(): void {
    this.whole = null;
  }

  async #digested(
    name: string,
    sha256: string,
    bytes: number | null,
    progress: Received,
    signal: AbortSignal,
  ): Promise<Uint8Array<ArrayBuffer>> {
    const cache = this.cached ? await openCache() : null;
    const key = CACHED + sha256;
    const known = await cache?.match(key).catch(() => undefined);
    if (known) {
      const data = new Uint8Array(await known.arrayBuffer());
      if ((await digestOf(data)) === sha256) {
        progress(data.length);
        return data;
      }
      await cache?.delete(key);
    }
    const place = this.place(name);
    let why = "";
    for (const mode of ["default", "reload"] as const) {
      let counted = 0;
      const count = (more: number) => {
        counted += more;
        progress(more);
      };
      try {
        const data =
          this.#ofWhole(place, count) ?? (await received(this.get, place, bytes, count, mode, signal));
        if ((await digestOf(data)) === sha256) {
          if (cache) await this.#keep(cache, key, data);
          return data;
        }
        why = `has ${bytes !== null && data.length !== bytes ? `${data.length} of ${bytes} bytes` : "other bytes than its digest says"}`;
      } catch (cause) {
        signal.throwIfAborted();
        why = cause instanceof TapmlError ? cause.sentence : String(cause);
      }
      progress(-counted);
      this.whole = null;
    }
    const sentence = `${name} (sha256 ${sha256}), fetched twice, ${why}`;
    throw new TapmlError("download", sentence, "check the server, or copy the model there again");
  }

  /** Nobody waits for what goes to the cache, but for former ones where it is slower than the network. */
  async #keep(cache: Cache, key: string, data: Uint8Array<ArrayBuffer>): Promise<void> {
    while (this.#keeping.size >= MOST_KEEPING) await Promise.race(this.#keeping);
    // Where there is no room for it the next load fetches it again.
    const put = cache
      .put(key, new Response(data))
      .catch(() => {})
      .finally(() => this.#keeping.delete(put));
    this.#keeping.add(put);
  }

  #ofWhole({ range }: Place, progress: Received): Uint8Array<ArrayBuffer> | null {
    if (!this.whole || !range) return null;
    const data = this.whole.slice(...range);
    progress(data.length);
    return data;
  }
}

/** The browser's storage for what models of one origin share; null where there is none. */
export async function openCache(): Promise<Cache | null> {
  // Pages in private windows of some browsers have one that refuses.
  return typeof caches === "undefined" ? null : caches.open(CACHE).catch(() => null);
}

/** The bytes at a place; `bytes` of them where that is known, or fewer where the network ends early. */
async function received(
  get: Fetch,
  { url, range }: Place,
  bytes: number | null,
  progress: Received,
  cache: RequestCache,
  signal: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> {
  const headers: Record<string, string> = range ? { Range: `bytes=${range[0]}-${range[1] - 1}` } : {};
  const response = await requested(get, url, { headers, cache, signal });
  if (!response.ok || !response.body) {
    await response.body?.cancel();
    throw new TapmlError("download", `gives HTTP ${response.status}`, "check the server");
  }
  // Without ranges the server sends all of the file.
  const skip = range && response.status !== 206 ? range[0] : 0;
  const most = range ? range[1] - range[0] : bytes;
  const data = most === null ? null : new Uint8Array(most);
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  const reader = (response.body as ReadableStream<Uint8Array<ArrayBuffer>>).getReader();
  let position = -skip;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const piece = position < 0 ? value.subarray(Math.min(-position, value.length)) : value;
      position += value.length;
      if (!piece.length) continue;
      const start = position - piece.length;
      if (data) {
        if (start >= data.length) throw new Error(`has more than ${data.length} bytes`);
        data.set(piece.subarray(0, data.length - start), start);
        if (position > data.length && !skip) throw new Error(`has more than ${data.length} bytes`);
      } else pieces.push(piece);
      progress(piece.length);
      if (data && skip && position >= data.length) break;
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
  if (data) return position < data.length ? data.slice(0, Math.max(0, position)) : data;
  return new Uint8Array(await new Blob(pieces).arrayBuffer());
}

async function requested(
  get: Fetch,
  url: string,
  init: RequestInit & { signal: AbortSignal },
): Promise<Response> {
  return arrived(url, get(url, init), init.signal);
}

async function arrived<T>(url: string, promise: Promise<T>, signal: AbortSignal): Promise<T> {
  try {
    return await promise;
  } catch (cause) {
    signal.throwIfAborted();
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new TapmlError(
      "download",
      `${url} could not be fetched (${why})`,
      "check the address and the network",
      {
        cause,
      },
    );
  }
}

/** SHA-256, in lower-case hexadecimal. */
export async function digestOf(data: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function startsWithMagic(bytes: Uint8Array): boolean {
  return bytes.length >= HEADER_BYTES && new TextDecoder().decode(bytes.subarray(0, MAGIC.length)) === MAGIC;
}

function parsed(url: string, bytes: Uint8Array): unknown {
  if (bytes.length > MOST_DOCUMENT_BYTES) throw notAModel(url, "is too large for a model's document");
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    throw notAModel(url, "is neither the JSON nor the single file of a model", cause);
  }
}

function notAModel(url: string, what: string, cause?: unknown): TapmlError {
  const fix =
    "give the address of what `tapml build` wrote: its folder with a / at the end, its model.json, or the file";
  return new TapmlError("not-a-model", `${url} ${what}`, fix, { cause });
}
