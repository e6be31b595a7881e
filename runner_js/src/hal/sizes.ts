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
