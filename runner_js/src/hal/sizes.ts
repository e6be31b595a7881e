/** WebGPU writes and copies whole 4-byte words, and a buffer of no bytes cannot be bound. */
export function paddedBytes(bytes: number): number {
  return Math.max(4, Math.ceil(bytes / 4) * 4);
}

const SMALLEST_CLASS = 256;

/** The size a pooled buffer is made with: eight classes to each doubling, so that at most an eighth is wasted. */
export function sizeClass(bytes: number, most: number): number {
  if (bytes <= SMALLEST_CLASS) return Math.min(SMALLEST_CLASS, most);
  const step = 2 ** (Math.floor(Math.log2(bytes - 1)) - 3);
  return Math.min(Math.ceil(bytes / step) * step, most);
}
