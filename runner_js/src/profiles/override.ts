/**
 * Gives one object of the browser's other properties than its own. It stays the browser's: it can still be handed to
 * WebGPU, which a wrapper around it could not.
 */
export function override(target: object, properties: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(properties))
    Object.defineProperty(target, name, { value, configurable: true });
}
