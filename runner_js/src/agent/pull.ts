/** From an offer to the files of a version: nothing that comes is believed before key and digests say so. */
import type { AgentStore } from "./api";
import { type Manifest, type Offer, readExclusive, readManifest, type TaskFile } from "./documents";
import { AgentError } from "./error";
import { checkSigned, isSigned, sha256 } from "./trust";

type Bytes = Uint8Array<ArrayBuffer>;

const MOST_MANIFEST = 4_000_000;

export interface Version {
  readonly offer: Offer;
  readonly manifest: Manifest;
  /** By path; an exclusive file hides a shared one of its path. */
  readonly files: ReadonlyMap<string, Bytes>;
}

export interface Source {
  /** Of the service, with a / at the end. */
  readonly service: string;
  readonly key: CryptoKey;
  readonly store: AgentStore;
  readonly fetch: typeof fetch;
  readonly grant: () => Promise<string | null>;
}

/** Rejects with an AgentError where something is missing, damaged or not signed by the key. */
export async function pullVersion(source: Source, offer: Offer): Promise<Version> {
  const name = `manifests/${offer.manifest}`;
  const data = await stored(source, `${name}.json`, offer.manifest, MOST_MANIFEST);
  await checkManifest(source, `${name}.sig`, data);
  const manifest = readManifest(data);
  if (manifest.task !== offer.task || manifest.version !== offer.version)
    throw new AgentError(
      "untrusted",
      `the manifest offered as ${offer.task} ${offer.version} is that of ${manifest.task} ${manifest.version}`,
      "ask another service",
    );
  const files = new Map<string, Bytes>();
  for (const file of manifest.shared)
    files.set(file.path, await stored(source, `blobs/${file.sha256}`, file.sha256, file.bytes));
  if (manifest.exclusive !== null) await addExclusive(source, offer.manifest, files);
  return { offer, manifest, files };
}

/** By its signature, which is kept once it is known to be good: what is held runs while the service is away. */
async function checkManifest(source: Source, path: string, data: Bytes): Promise<void> {
  const kept = await source.store.get(path);
  if (kept !== null && (await isSigned(source.key, "tapml.task/1", data, kept))) return;
  const signature = await download(source, path, 64);
  await checkSigned(source.key, "tapml.task/1", data, signature);
  await source.store.set(path, signature).catch(() => {});
}

/** What the user who is logged in has of it: nobody is, or has none, and there is nothing to add. */
async function addExclusive(source: Source, manifest: string, files: Map<string, Bytes>): Promise<void> {
  const grant = await source.grant();
  if (grant === null) return;
  const headers = { "Tapml-Grant": grant };
  const place = `exclusive/${manifest}`;
  const data = await download(source, `${place}/document.json`, MOST_MANIFEST, headers, true);
  if (data === null) return;
  const signature = await download(source, `${place}/document.sig`, 64, headers);
  await checkSigned(source.key, "tapml.exclusive/1", data, signature);
  const own: TaskFile[] = readExclusive(data, manifest);
  // Not kept: another user may be the next one here.
  for (const file of own) {
    const found = await download(source, `${place}/files/${file.path}`, file.bytes, headers);
    await checkDigest(found, file.sha256, file.path);
    files.set(file.path, found);
  }
}

/** By digest, from the store or the service. What is damaged in the store is downloaded again. */
async function stored(source: Source, path: string, digest: string, bytes: number): Promise<Bytes> {
  const kept = await source.store.get(path);
  if (kept !== null && (await sha256(kept)) === digest) return kept;
  const found = await download(source, path, bytes);
  await checkDigest(found, digest, path);
  // A full disk is no reason not to run.
  await source.store.set(path, found).catch(() => {});
  return found;
}

async function checkDigest(data: Bytes, digest: string, path: string): Promise<void> {
  if ((await sha256(data)) !== digest)
    throw new AgentError("untrusted", `${path} is not the file that was published`, "ask another service");
}

type Headers = Record<string, string>;

export async function download(source: Source, path: string, most: number, headers?: Headers): Promise<Bytes>;
export async function download(
  source: Source,
  path: string,
  most: number,
  headers: Headers,
  mayMiss: true,
): Promise<Bytes | null>;
export async function download(
  source: Source,
  path: string,
  most: number,
  headers: Headers = {},
  mayMiss = false,
): Promise<Bytes | null> {
  const url = source.service + path;
  const answer = await source.fetch(url, { headers, credentials: "omit" }).catch((cause: unknown) => {
    throw new AgentError("service", `${url} cannot be reached (${String(cause)})`, "try again later");
  });
  if (answer.status === 404 && mayMiss) return null;
  if (!answer.ok)
    throw new AgentError(
      "service",
      `${url} answers ${answer.status}`,
      "look at the service's address and its log",
      answer.status,
    );
  return await atMost(answer, most, url);
}

/** The body, read no further than `most` bytes. */
export async function atMost(answer: Response, most: number, url: string): Promise<Bytes> {
  const pieces: Uint8Array[] = [];
  let total = 0;
  const reader = answer.body?.getReader();
  while (reader) {
    const { done, value } = await reader.read();
    if (done) break;
    total += value.length;
    if (total > most) {
      await reader.cancel();
      throw new AgentError(
        "untrusted",
        `${url} has more than the ${most} bytes that it may have`,
        "ask elsewhere",
      );
    }
    pieces.push(value);
  }
  const whole = new Uint8Array(total);
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
