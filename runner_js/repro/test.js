/** The test, out of this very file. */
/** @import { Allowed, Bound, Bytes, Repro, Tensor, TensorRef } from "./types" */
import { bytesOf } from "../src/program/dtypes.js";
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

/** Of all tensors of a test: whoever writes more did not export it with tapml. */
const MOST_TENSOR_BYTES = 2 ** 30;

/** Throws where the tensors are said to be larger than an exported test's may be. @param {Tensor[]} tensors */
export function checkBytes(tensors) {
  const sizes = new Map(tensors.map((tensor) => [tensor.digest, bytesOf(tensor)]));
  const total = [...sizes.values()].reduce((sum, size) => sum + size, 0);
  if (!(total <= MOST_TENSOR_BYTES))
    throw new Failure("damaged", `The tensors of this test are said to be ${total} bytes, more than 1 GiB.`);
}

/**
 * A tensor's gzip stands in the page byte by byte as windows-1252 text. HTML changes the bytes 0x00 and 0x0D, and 0x3C is
 * "<": each block of `block` bytes comes after a key, and is XORed with the key, which keeps it free of the three.
 * No more than `size` bytes are unpacked: a small file may inflate to more than a machine has.
 * @param {string} text @param {number} block @param {number} size
 */
export async function decodeTensor(text, block, size) {
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

/** @param {Tensor} tensor @returns {Promise<Bytes>} */
export async function readTensor(tensor) {
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
