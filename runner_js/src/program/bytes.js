/** "1.5 MiB", for messages. @param {number} bytes */
export function describeBytes(bytes) {
  /** @type {[number, string][]} */
  const units = [
    [2 ** 30, "GiB"],
    [2 ** 20, "MiB"],
    [2 ** 10, "KiB"],
  ];
  const [unit, name] = units.find(([size]) => bytes >= size) ?? [1, "bytes"];
  return `${Math.round((bytes / unit) * 10) / 10} ${name}`;
}

/**
 * Two sizes to compare; exact where rounded numbers would look the same.
 * @param {number} one @param {number} other @returns {[string, string]}
 */
export function describePair(one, other) {
  const [first, second] = [describeBytes(one), describeBytes(other)];
  return first === second ? [`${one} bytes`, `${other} bytes`] : [first, second];
}
