import { DeviceFailure } from "../hal/errors";
import { storageBindings } from "../program/launches";
import { fits, misusedTexture } from "../program/textures";
import type { Binding, EntryPoint, Launch, Variant } from "../protocol/messages";

/** Far beyond what compilers make of one operator; each holds a compiled program, a buffer, a piece of memory. */
const MOST = { entry_points: 1000, launches: 10_000, temporaries: 1000, textures: 100 };

/** Throws what is wrong with a variant's launches before anything is recorded. */
export function checkLaunches(kernel: string, variant: Variant): void {
  for (const [what, most] of Object.entries(MOST)) {
    const { length } = variant[what as keyof typeof MOST] ?? [];
    if (length > most) throw refused(kernel, `has ${length} ${what.replace("_", " ")}, more than ${most}`);
  }
  const entryPoints = new Map(variant.entry_points.map((entry) => [entry.name, entry]));
  for (const launch of variant.launches) {
    const entryPoint = entryPoints.get(launch.entry_point);
    if (!entryPoint) throw refused(kernel, `has no entry point ${launch.entry_point}`);
    checkLaunch(kernel, entryPoint, launch, variant);
  }
  const misused = misusedTexture(variant);
  if (misused !== null) throw refused(kernel, misused);
}

function checkLaunch(kernel: string, entryPoint: EntryPoint, launch: Launch, variant: Variant): void {
  const { name, bindings } = entryPoint;
  const bound = storageBindings(entryPoint);
  const storage = bound.length;
  const uniforms = bindings.length - storage;
  if (new Set(bindings.map(({ binding }) => binding)).size < bindings.length || uniforms > 1) {
    throw refused(kernel, `has two bindings of a number, or two uniforms, at ${name}`);
  }
  if (launch.operands.length !== storage) {
    throw refused(kernel, `takes ${storage} operands at ${name}, the launch gives ${launch.operands.length}`);
  }
  if (launch.uniforms.length > 0 !== uniforms > 0) {
    throw refused(
      kernel,
      `has ${uniforms || "no"} uniform at ${name}, the launch gives ${launch.uniforms.length}`,
    );
  }
  const { temporaries, textures = [] } = variant;
  launch.operands.forEach((operand, i) => {
    if ("temporary" in operand && operand.temporary >= temporaries.length) {
      throw refused(kernel, `is launched with temporary ${operand.temporary} of ${temporaries.length}`);
    }
    if ("texture" in operand && operand.texture >= textures.length) {
      throw refused(kernel, `is launched with texture ${operand.texture} of ${textures.length}`);
    }
    if (!fits(bound[i] as Binding, operand, variant))
      throw refused(kernel, `is launched at ${name} with an operand ${i} that does not fit its binding`);
  });
}

function refused(kernel: string, what: string): DeviceFailure {
  const message = `kernel ${kernel} ${what}`;
  return new DeviceFailure({ kind: "protocol", message, kernel });
}
