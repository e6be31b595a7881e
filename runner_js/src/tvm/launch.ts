import { DeviceFailure } from "../hal/errors";
import type { Kernel, Launch } from "../protocol/messages";
import type { BufferPointer, EntryPointInfo, Shader } from "./tvmjs";

const WRITE_ACCESS = "paramWriteAccess:";

/** For each buffer of an entry point, in binding order: whether the kernel may write it. */
export function writeAccess(info: EntryPointInfo): boolean[] {
  const tag = info.launch_param_tags.find((t) => t.startsWith(WRITE_ACCESS));
  const flags: unknown = tag ? JSON.parse(tag.slice(WRITE_ACCESS.length)) : [];
  return Array.isArray(flags) ? flags.map(Boolean) : [];
}

/** Which of the operator's arguments some dispatch may write. */
export function writtenArguments(kernel: Kernel, launches: readonly Launch[]): Set<number> {
  const written = new Set<number>();
  for (const launch of launches) {
    const access = writeAccess(entryPointOf(kernel, launch).info);
    let buffer = 0;
    for (const argument of launch.arguments) {
      if ("scalar" in argument) continue;
      if ("argument" in argument && access[buffer]) written.add(argument.argument);
      buffer++;
    }
  }
  return written;
}

export function entryPointOf(kernel: Kernel, launch: Launch) {
  const entryPoint = kernel.entry_points.find((e) => e.name === launch.entry_point);
  if (!entryPoint) throw refused(kernel, `has no entry point ${launch.entry_point}`);
  return entryPoint;
}

/** Throws what is wrong with launches before anything is encoded. */
export function checkLaunches(
  kernel: Kernel,
  launches: readonly Launch[],
  argumentCount: number,
  temporaryCount: number,
): void {
  for (const launch of launches) {
    const { info } = entryPointOf(kernel, launch);
    if (launch.arguments.length !== info.arg_types.length) {
      throw refused(
        kernel,
        `takes ${info.arg_types.length} arguments at ${info.name}, the launch gives ${launch.arguments.length}`,
      );
    }
    launch.dispatch.forEach((extent, axis) => {
      // tvmjs would leave such an extent out and run a part of the kernel only.
      if (extent !== 1 && !info.launch_param_tags.includes(`blockIdx.${"xyz"[axis]}`)) {
        throw refused(
          kernel,
          `has no blockIdx.${"xyz"[axis]} at ${info.name}, the launch gives it ${extent}`,
        );
      }
    });
    launch.arguments.forEach((argument, i) => {
      const isBuffer = !("scalar" in argument);
      if (isBuffer !== (info.arg_types[i] === "handle")) {
        throw refused(kernel, `wants ${info.arg_types[i]} as argument ${i} of ${info.name}`);
      }
      if ("argument" in argument && argument.argument >= argumentCount) {
        throw refused(kernel, `is launched with argument ${argument.argument} of ${argumentCount}`);
      }
      if ("temporary" in argument && argument.temporary >= temporaryCount) {
        throw refused(kernel, `is launched with temporary ${argument.temporary} of ${temporaryCount}`);
      }
    });
  }
}

/** Encodes one dispatch into the context's pending commands. */
export function encodeLaunch(
  shader: Shader,
  info: EntryPointInfo,
  launch: Launch,
  operands: readonly BufferPointer[],
  temporaries: readonly BufferPointer[],
): void {
  const values = launch.arguments.map((argument) => {
    if ("scalar" in argument) return argument.scalar;
    const pointer = "argument" in argument ? operands[argument.argument] : temporaries[argument.temporary];
    return pointer as BufferPointer;
  });
  shader(...values, ...launchExtents(info, launch));
}

/** Extents in the order of the launch tags: "blockIdx.x" is dispatch[0], "threadIdx.y" is workgroup_size[1]. */
export function launchExtents(info: EntryPointInfo, launch: Launch): number[] {
  return info.launch_param_tags
    .filter((tag) => !tag.startsWith("param"))
    .map((tag) => {
      const axis = "xyz".indexOf(tag.at(-1) ?? "");
      const extents = tag.startsWith("blockIdx.") ? launch.dispatch : launch.workgroup_size;
      return extents[axis] ?? 1;
    });
}

function refused(kernel: Kernel, what: string): DeviceFailure {
  const message = `kernel ${kernel.kernel} ${what}`;
  return new DeviceFailure({ kind: "protocol", message, kernel: kernel.kernel });
}
