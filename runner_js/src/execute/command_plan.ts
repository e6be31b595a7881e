import { DeviceFailure } from "../hal/errors";
import { bytesOf } from "../program/dtypes";
import type { Command, TensorType } from "../protocol/messages";

/**
 * Follows the names through a list of commands without running it: gives the bytes of each download, in order.
 * Throws where a command names a tensor that will not be there, before anything was changed.
 */
export function planDownloads(
  commands: readonly Command[],
  present: (name: string) => TensorType | undefined,
): number[] {
  const changed = new Map<string, TensorType | null>();
  const freed: string[] = [];
  const sizes: number[] = [];
  const find = (name: string): TensorType | undefined => {
    const known = changed.get(name);
    if (known !== undefined) return known ?? undefined;
    return freed.some((prefix) => name.startsWith(prefix)) ? undefined : present(name);
  };
  const need = (name: string, command: number): TensorType => {
    const type = find(name);
    if (!type) {
      const message = `there is no tensor ${name} on this device (command ${command}, ${commands[command]?.op})`;
      throw new DeviceFailure({ kind: "protocol", message, command });
    }
    return type;
  };
  commands.forEach((command, i) => {
    switch (command.op) {
      case "load":
      case "unload":
      case "sync":
        break;
      case "upload":
      case "allocate":
        changed.set(command.tensor, command);
        break;
      case "view":
        changed.set(command.tensor, { ...need(command.of, i), shape: command.shape });
        break;
      case "copy":
        need(command.of, i);
        need(command.tensor, i);
        break;
      case "call":
        for (const name of command.arguments) need(name, i);
        break;
      case "download":
        sizes.push(bytesOf(need(command.tensor, i)));
        break;
      case "free":
        for (const name of command.tensors) changed.set(name, null);
        break;
      case "free_prefix":
        freed.push(command.prefix);
        for (const name of [...changed.keys()]) if (name.startsWith(command.prefix)) changed.delete(name);
        break;
      default:
        command satisfies never;
    }
  });
  return sizes;
}
