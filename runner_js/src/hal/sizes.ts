/** WebGPU writes and copies whole 4-byte words, and a buffer of no bytes cannot be bound. */
export function paddedBytes(bytes: number): number {
  return Math.max(4, Math.ceil(bytes / 4) * 4);
}

/** "1.5 MiB", for messages. */
export function describeBytes(bytes: number): string {
  const units: [number, string][] = [
    [2 ** 30, "GiB"],
    [2 ** 20, "MiB"],
    [2 ** 10, "KiB"],
  ];
  const [unit, name] = units.find(([size]) => bytes >= size) ?? [1, "bytes"];
  return `${Math.round((bytes / unit) * 10) / 10} ${name}`;
}

/** Two sizes to compare; exact where rounded numbers would look the same. */
export function describePair(one: number, other: number): [string, string] {
  const [first, second] = [describeBytes(one), describeBytes(other)];
  return first === second ? [`${one} bytes`, `${other} bytes`] : [first, second];
}

const SMALLEST_CLASS = 256;

/** The size a pooled buffer is made with: eight classes to each doubling, so that at most an eighth is wasted. */
export function sizeClass(bytes: number, most: number): number {
  if (bytes <= SMALLEST_CLASS) return Math.min(SMALLEST_CLASS, most);
  const step = 2 ** (Math.floor(Math.log2(bytes - 1)) - 3);
  return Math.min(Math.ceil(bytes / step) * step, most);
}
