/** The test, out of this very file. */
/** @import { Allowed, Bound, Bytes, Repro, Tensor, TensorRef } from "./types" */
import { bytesOf } from "./compare.js";
import { Failure } from "./device.js";

/** @returns {Repro} */
export function readRepro() {
  /** @type {Repro} */
  const repro = JSON.parse(document.getElementById("repro")?.textContent ?? "");
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

/**
 * A tensor's gzip stands in the page byte by byte as windows-1252 text. HTML changes the bytes 0x00 and 0x0D, and 0x3C is
 * "<": each block of `block` bytes comes after a key, and is XORed with the key, which keeps it free of the three.
 * @param {string} text @param {number} block
 */
export async function decodeTensor(text, block) {
  const byteOf = new Uint8Array(1 << 16);
  const characters = new TextDecoder("windows-1252").decode(
    Uint8Array.from({ length: 256 }, (_, byte) => byte),
  );
  for (let byte = 0; byte < 256; byte++) byteOf[characters.charCodeAt(byte)] = byte;
  const packed = new Uint8Array(text.length);
  let length = 0;
  let key = 0;
  for (let i = 0; i < text.length; i++) {
    const byte = byteOf[text.charCodeAt(i)];
    if (i % (block + 1) === 0) key = byte;
    else packed[length++] = byte ^ key;
  }
  const unpacked = new Blob([packed.subarray(0, length)])
    .stream()
    .pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(unpacked).arrayBuffer());
}

/** @param {Tensor} tensor @returns {Promise<Bytes>} */
export async function readTensor(tensor) {
  const element = document.querySelector(`script[data-digest="${CSS.escape(tensor.digest)}"]`);
  try {
    const bytes = await decodeTensor(element?.textContent ?? "", Number(element?.getAttribute("data-block")));
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    const digest = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
    if (digest === tensor.digest && bytes.byteLength === bytesOf(tensor)) return bytes;
  } catch {
    // What cannot be unpacked was changed too.
  }
  throw new Failure(
    "damaged",
    `Tensor ${tensor.name} is damaged: this file was changed on its way, download it again.`,
  );
}

/** What tolerances are made of beside their numbers. @param {Repro} repro @returns {Tensor[]} */
export function toleranceTensors({ outputs }) {
  return outputs.flatMap(({ name, tolerance: { bound, ties } }) => [
    ...(bound ? [{ ...bound, name: `bound of ${name}` }] : []),
    ...(ties ? [{ ...ties, name: `ties of ${name}` }] : []),
  ]);
}

/** @param {Bound} tolerance @param {(tensor: TensorRef) => Bytes} data @returns {Allowed} */
export function allowedBy({ absolute, relative, bound, ties }, data) {
  return {
    absolute,
    relative,
    bound: bound ? new Float32Array(data(bound).buffer) : null,
    ties: ties ? new Int32Array(data(ties).buffer) : null,
  };
}
