/** The characters that stand for bytes in the vocabularies of byte-level models. */

const CHARACTERS: readonly string[] = characters();
const BYTES = new Map(CHARACTERS.map((character, byte) => [character, byte]));
const ENCODER = new TextEncoder();

function characters(): string[] {
  const itself = (byte: number) =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(itself(byte) ? byte : next++));
}

export function bytesOf(text: string): Uint8Array {
  return ENCODER.encode(text);
}

/** A text with a character for each of its bytes. */
export function asBytes(text: string): string {
  let found = "";
  for (const byte of ENCODER.encode(text)) found += CHARACTERS[byte];
  return found;
}

/** The bytes for which a token's characters stand; its own where one of them stands for none. */
export function fromBytes(token: string): readonly number[] {
  const bytes = Array.from(token, (character) => BYTES.get(character));
  return bytes.every((byte) => byte !== undefined) ? bytes : [...ENCODER.encode(token)];
}

/** UTF-8, with U+FFFD for what is none. */
export function decoded(bytes: readonly number[]): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
}

/** The token of a byte for which a vocabulary has no character. */
export function byteToken(byte: number): string {
  return `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
}
