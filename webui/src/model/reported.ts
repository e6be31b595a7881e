/** Results that came with an imported test carry their device's name with an ending of their own. */

const ENDING = " (reported)";

export function isReported(device: { name: string }): boolean {
  return device.name.endsWith(ENDING);
}

/** The device's own name. */
export function reporter(device: { name: string }): string {
  return isReported(device) ? device.name.slice(0, -ENDING.length) : device.name;
}
