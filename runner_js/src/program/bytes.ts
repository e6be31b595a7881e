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
