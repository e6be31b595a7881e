/** WebGPU writes and copies whole 4-byte words, and a buffer of no bytes cannot be bound. */
export function paddedBytes(bytes: number): number {
  return Math.max(4, Math.ceil(bytes / 4) * 4);
}

/** "1.5 MiB", for messages. */
export function describeBytes(bytes: number): string {
  if (bytes >= 1 << 20) return `${Math.round((bytes / (1 << 20)) * 10) / 10} MiB`;
  if (bytes >= 1 << 10) return `${Math.round((bytes / (1 << 10)) * 10) / 10} KiB`;
  return `${bytes} bytes`;
}
