/** "1.5 MB", a million and a half, for messages: as the command writes it. */
export function describeBytes(bytes: number): string {
  const units: [number, string][] = [
    [1e9, "GB"],
    [1e6, "MB"],
    [1e3, "kB"],
  ];
  const [unit, name] = units.find(([size]) => bytes >= size) ?? [1, "bytes"];
  return `${Math.round((bytes / unit) * 10) / 10} ${name}`;
}

/** Two sizes to compare; exact where rounded numbers would look the same. */
export function describePair(one: number, other: number): [string, string] {
  const [first, second] = [describeBytes(one), describeBytes(other)];
  return first === second ? [`${one} bytes`, `${other} bytes`] : [first, second];
}
