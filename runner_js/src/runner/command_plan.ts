import { DeviceFailure } from "../hal/errors";
import type { Command, TensorType } from "../protocol/messages";
import { bytesOf } from "./dtypes";

/**
 * Follows the names through a list of commands without running it: gives the bytes of each download, in order.
 * Throws where a command names a tensor that will not be there, before anything was changed.
 */
export function planDownloads(commands: readonly Command[], types: Map<string, TensorType>): number[] {
  const known = new Map(types);
  const sizes: number[] = [];
  const need = (name: string, command: number): TensorType => {
    const type = known.get(name);
    if (!type) {
      const message = `command ${command} (${commands[command]?.op}): there is no tensor ${name} on this device`;
      throw new DeviceFailure({ kind: "protocol", message });
    }
    return type;
  };
  commands.forEach((command, i) => {
    switch (command.op) {
      case "upload":
      case "allocate":
        known.set(command.tensor, { dtype: command.dtype, shape: command.shape });
        break;
      case "view":
        known.set(command.tensor, { dtype: need(command.of, i).dtype, shape: command.shape });
        break;
      case "call":
        for (const name of command.arguments) need(name, i);
        break;
      case "download":
        sizes.push(bytesOf(need(command.tensor, i)));
        break;
      case "free":
        need(command.tensor, i);
        known.delete(command.tensor);
        break;
      case "free_prefix":
        for (const name of [...known.keys()]) if (name.startsWith(command.prefix)) known.delete(name);
        break;
    }
  });
  return sizes;
}
