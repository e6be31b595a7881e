/** The test, out of this very file. */
import { DeviceFailure } from "../src/hal/errors";
import { bytesOf } from "../src/program/dtypes";
import type { Bytes, Repro, Tensor } from "./types";

export function readRepro(): Repro {
  const repro: Repro = JSON.parse(document.getElementById("repro")?.textContent ?? "");
  for (const file of repro.files) {
    const element = document.querySelector(`script[data-file="${CSS.escape(file.name)}"]`);
    file.text = element?.textContent ?? "";
    if (element?.getAttribute("data-encoding") === "base64") {
      file.text = new TextDecoder().decode(
        Uint8Array.from(atob(file.text), (character) => character.charCodeAt(0)),
      );
    }
  }
  return repro;
}

/** Of all tensors of a test: whoever writes more did not export it with tapml. */
const MOST_TENSOR_BYTES = 2 ** 30;

function damaged(message: string): DeviceFailure {
  return new DeviceFailure({ kind: "fetch", message });
}

/** Throws where the tensors are said to be larger than an exported test's may be. */
export function checkBytes(tensors: readonly Tensor[]): void {
  const sizes = new Map(tensors.map((tensor) => [tensor.digest, bytesOf(tensor)]));
  const total = [...sizes.values()].reduce((sum, size) => sum + size, 0);
  if (!(total <= MOST_TENSOR_BYTES))
    throw damaged(
      `The tensors of this test are said to be ${total} bytes, and ${MOST_TENSOR_BYTES} are the most.`,
    );
}

/**
 * A tensor's gzip stands in the page byte by byte as windows-1252 text. HTML changes the bytes 0x00 and 0x0D, and 0x3C is
 * "<": each block of `block` bytes comes after a key, and is XORed with the key, which keeps it free of the three.
 * No more than `size` bytes are unpacked: a small file may inflate to more than a machine has.
 */
export async function decodeTensor(text: string, block: number, size: number): Promise<Bytes> {
  const byteOf = new Uint8Array(1 << 16);
  const characters = new TextDecoder("windows-1252").decode(
    Uint8Array.from({ length: 256 }, (_, byte) => byte),
  );
  for (let byte = 0; byte < 256; byte++) byteOf[characters.charCodeAt(byte)] = byte;
  const packed = new Uint8Array(text.length);
  let length = 0;
  let key = 0;
  for (let i = 0; i < text.length; i++) {
    const byte = byteOf[text.charCodeAt(i)] as number;
    if (i % (block + 1) === 0) key = byte;
    else packed[length++] = byte ^ key;
  }
  const unpacking = new Blob([packed.subarray(0, length)])
    .stream()
    .pipeThrough(new DecompressionStream("gzip"))
    .getReader();
  const unpacked = new Uint8Array(size);
  let at = 0;
  for (let part = await unpacking.read(); !part.done; part = await unpacking.read()) {
    if (at + part.value.length > size) {
      await unpacking.cancel();
      throw new Error(`it is more than ${size} bytes`);
    }
    unpacked.set(part.value, at);
    at += part.value.length;
  }
  if (at < size) throw new Error(`it is ${at} instead of ${size} bytes`);
  return unpacked;
}

async function readTensor(tensor: Tensor): Promise<Bytes> {
  const element = document.querySelector(`script[data-digest="${CSS.escape(tensor.digest)}"]`);
  try {
    const block = Number(element?.getAttribute("data-block"));
    const bytes = await decodeTensor(element?.textContent ?? "", block, bytesOf(tensor));
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    const digest = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
    if (digest === tensor.digest) return bytes;
  } catch {
    // What cannot be unpacked was changed too.
  }
  throw damaged(`Tensor ${tensor.name} is damaged: this file was changed on its way, download it again.`);
}

/** The bytes of all tensors of a test, by digest. Throws a DeviceFailure for what was damaged. */
export async function readTensors(repro: Repro): Promise<Map<string, Bytes>> {
  const named = [...repro.inputs, ...repro.outputs, ...toleranceTensors(repro)];
  checkBytes(named);
  const read = new Map<string, Bytes>();
  for (const tensor of named) if (!read.has(tensor.digest)) read.set(tensor.digest, await readTensor(tensor));
  return read;
}

/** What tolerances are made of beside their numbers. */
export function toleranceTensors({ outputs }: Repro): Tensor[] {
  return outputs.flatMap(({ name, tolerance: { bound, ties } }) => [
    ...(bound ? [{ ...bound, name: `bound of ${name}` }] : []),
    ...(ties ? [{ ...ties, name: `ties of ${name}` }] : []),
  ]);
}
