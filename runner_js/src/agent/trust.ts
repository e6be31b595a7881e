/** Digests and signatures, by WebCrypto. */
import { AgentError } from "./error";

type Bytes = Uint8Array<ArrayBuffer>;

/** What is signed begins with what it is (backend/tapml/field/signing.py). */
export type Signed = "tapml.task/1" | "tapml.exclusive/1";

export async function sha256(data: Bytes): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The page's key. Throws an AgentError where it is none, or where the browser has no Ed25519. */
export async function readKey(key: string): Promise<CryptoKey> {
  if (!/^[A-Za-z0-9_-]{43}$/.test(key))
    throw new AgentError("input", "key is no public key", "give the line that `tapml field key` printed");
  try {
    const jwk = { kty: "OKP", crv: "Ed25519", x: key };
    return await crypto.subtle.importKey("jwk", jwk, { name: "Ed25519" }, false, ["verify"]);
  } catch (cause) {
    throw new AgentError(
      "input",
      `the public key cannot be used (${cause instanceof Error ? cause.message : cause})`,
      "give the line that `tapml field key` printed, in a browser whose WebCrypto has Ed25519",
    );
  }
}

/** Whether `signature` is the key's of `data`. */
export async function isSigned(
  key: CryptoKey,
  what: Signed,
  data: Bytes,
  signature: Bytes,
): Promise<boolean> {
  const prefix = new TextEncoder().encode(`${what}\0`);
  const signed = new Uint8Array(prefix.length + data.length);
  signed.set(prefix);
  signed.set(data, prefix.length);
  return await crypto.subtle.verify("Ed25519", key, signature, signed);
}

/** Throws an AgentError where it is not. */
export async function checkSigned(...given: Parameters<typeof isSigned>): Promise<void> {
  if (!(await isSigned(...given)))
    throw new AgentError(
      "untrusted",
      "a manifest is not signed by the page's key",
      "publish the version with that key",
    );
}
