import { describe, expect, it } from "vitest";
import { checkBytes, decodeTensor } from "./test";

const FORBIDDEN = [0x00, 0x0d, 0x3c];

/** Blocks with a key each, as whoever writes the file does it; any key that fits. */
function encode(bytes: Uint8Array, block: number): Uint8Array {
  const out: number[] = [];
  for (let start = 0; start < bytes.length; start += block) {
    const part = bytes.subarray(start, start + block);
    const used = new Set(part);
    const fits = (key: number) => !FORBIDDEN.includes(key) && FORBIDDEN.every((bad) => !used.has(bad ^ key));
    const keys = Array.from({ length: 256 }, (_, i) => (i + 31 * start) % 256);
    const key = keys.find(fits);
    if (key === undefined) throw new Error("no key for this block");
    out.push(key, ...part.map((byte) => byte ^ key));
  }
  return Uint8Array.from(out);
}

async function gzip(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const packed = new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(packed).arrayBuffer());
}

const random = (length: number) => crypto.getRandomValues(new Uint8Array(length));

/** As a browser reads the file. */
const asText = (encoded: Uint8Array) => new TextDecoder("windows-1252").decode(encoded);

describe("a tensor in the page", () => {
  it.each([0, 1, 2, 63, 64, 65, 1000, 40_000])("of %d bytes comes out as it went in", async (length) => {
    const bytes = random(length);
    for (const block of [1, 7, 64]) {
      const encoded = encode(await gzip(bytes), block);
      expect(FORBIDDEN.filter((bad) => encoded.includes(bad))).toEqual([]);
      const found = await decodeTensor(asText(encoded), block, length);
      expect(found.byteLength).toBe(length);
      expect(found.every((byte, i) => byte === bytes[i])).toBe(true);
    }
  });

  it("takes every byte that may stand there, those without a name in windows-1252 too", async () => {
    const bytes = random(20_000);
    const encoded = encode(await gzip(bytes), 16);
    expect(new Set(encoded).size).toBe(256 - FORBIDDEN.length);
    const found = await decodeTensor(asText(encoded), 16, 20_000);
    expect(found.every((byte, i) => byte === bytes[i])).toBe(true);
  });

  it("is refused where the file was cut or changed", async () => {
    const encoded = encode(await gzip(random(500)), 64);
    await expect(decodeTensor(asText(encoded.subarray(0, 200)), 64, 500)).rejects.toThrow();
    await expect(decodeTensor(asText(encoded), 63, 500)).rejects.toThrow();
    await expect(decodeTensor("", 64, 500)).rejects.toThrow();
    await expect(decodeTensor(asText(encoded), 64, 501)).rejects.toThrow("500 instead of 501");
  });

  it("is unpacked no further than it is said to be large", async () => {
    const bomb = encode(await gzip(new Uint8Array(50_000_000)), 64);
    await expect(decodeTensor(asText(bomb), 64, 1000)).rejects.toThrow("more than 1000 bytes");
  });

  it("is counted once, and all together are bounded", () => {
    const tensor = (digest: string, extent: number) => {
      return { name: "x", digest, dtype: "float32" as const, shape: [extent] };
    };
    const half = 2 ** 27;
    checkBytes([tensor("a", half), tensor("a", half), tensor("a", half), tensor("b", half)]);
    for (const shape of [
      [half, half + 1],
      [2 ** 32, 2 ** 32],
    ]) {
      const [one, other] = shape as [number, number];
      expect(() => checkBytes([tensor("a", one), tensor("b", other)])).toThrow(
        "bytes, and 1073741824 are the most",
      );
    }
  });
});
