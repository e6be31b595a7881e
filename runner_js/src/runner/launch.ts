import { DeviceFailure } from "../hal/errors";
import type { EntryPoint, Launch, Variant } from "../protocol/messages";

/** Far beyond what compilers make of one operator; each holds a compiled program, a buffer, a piece of memory. */
const MOST = { entry_points: 1000, launches: 10_000, temporaries: 1000 };

/** Throws what is wrong with a variant's launches before anything is recorded. */
export function checkLaunches(kernel: string, variant: Variant): void {
  for (const [what, most] of Object.entries(MOST)) {
    const { length } = variant[what as keyof typeof MOST];
    if (length > most) throw refused(kernel, `has ${length} ${what.replace("_", " ")}, more than ${most}`);
  }
  const entryPoints = new Map(variant.entry_points.map((entry) => [entry.name, entry]));
  for (const launch of variant.launches) {
    const entryPoint = entryPoints.get(launch.entry_point);
    if (!entryPoint) throw refused(kernel, `has no entry point ${launch.entry_point}`);
    checkLaunch(kernel, entryPoint, launch, variant.temporaries.length);
  }
}

function checkLaunch(kernel: string, { info }: EntryPoint, launch: Launch, temporaries: number): void {
  const [given, taken] = [launch.arguments.length, info.arg_types.length];
  if (given !== taken) {
    throw refused(kernel, `takes ${taken} arguments at ${info.name}, the launch gives ${given}`);
  }
  launch.dispatch.forEach((extent, axis) => {
    const tag = `blockIdx.${"xyz"[axis]}`;
    // The kernel was made for one workgroup along an axis that it does not name.
    if (extent !== 1 && !info.launch_param_tags.includes(tag)) {
      throw refused(kernel, `has no ${tag} at ${info.name}, the launch gives it ${extent}`);
    }
  });
  launch.arguments.forEach((argument, i) => {
    const isBuffer = !("scalar" in argument);
    if (isBuffer !== (info.arg_types[i] === "handle")) {
      throw refused(kernel, `wants ${info.arg_types[i]} as argument ${i} of ${info.name}`);
    }
    if ("temporary" in argument && argument.temporary >= temporaries) {
      throw refused(kernel, `is launched with temporary ${argument.temporary} of ${temporaries}`);
    }
  });
}

function refused(kernel: string, what: string): DeviceFailure {
  const message = `kernel ${kernel} ${what}`;
  return new DeviceFailure({ kind: "protocol", message, kernel });
}
