import type { AdapterInfo } from "../protocol/messages";

const IN_SOFTWARE: readonly (readonly [string, string])[] = [
  ["swiftshader", "swiftshader"],
  ["llvmpipe", "llvmpipe"],
  ["lavapipe", "llvmpipe"],
  ["microsoft basic", "warp"],
];
const WORD = /^[a-z0-9][a-z0-9._-]*$/;

/**
 * The classes of a device, from the closest to the widest: those of one class are supposed to be fast and slow at the
 * same things. As in backend/tapml/kernels/device_class.py; tests/vectors/choices.json is held against both.
 */
export function deviceClasses({ vendor, architecture, device, description }: AdapterInfo): string[] {
  const told = `${architecture} ${device} ${description}`.toLowerCase();
  const known = IN_SOFTWARE.find(([sign]) => told.includes(sign));
  if (known) return [known[1], "software"];
  const [maker, model] = [vendor, architecture].map(word);
  if (!maker) return ["gpu"];
  return [...(model ? [`${maker}/${model}`] : []), maker, "gpu"];
}

function word(text: string): string {
  const found = text.toLowerCase().replaceAll(" ", "-").slice(0, 40);
  // wgpu has numbers of the PCI registry in place of names, which say nothing to people.
  return WORD.test(found) && !/^\d+$/.test(found) ? found : "";
}
