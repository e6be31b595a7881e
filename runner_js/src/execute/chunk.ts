import type { Engine } from "../engine/engine";
import type { LoadedKernel } from "../engine/kernels";
import type { Buffer } from "../hal/buffers";
import { DeviceFailure, toErrorReport } from "../hal/errors";
import type { Watchdog } from "../hal/gpu";
import type { Readback } from "../hal/readback";
import { captureErrors } from "../hal/scopes";
import { paddedBytes } from "../hal/sizes";
import { bytesOf, describeType } from "../program/dtypes";
import type { Command, ErrorReport } from "../protocol/messages";
import type { CallTimer } from "./timer";

type Recorded = Exclude<Command, { op: "load" | "unload" | "upload" | "sync" }>;
type OperatorCall = Extract<Command, { op: "call" }>;

/** Commands in one submission: each set of error scopes costs as much as a few dispatches. */
const FULL = 512;
/** These only change what names mean; all others touch the GPU. */
const NAMES_ONLY: ReadonlySet<string> = new Set(["view", "free", "free_prefix"]);
/** Submissions that nobody has waited for. */
const MOST_UNDER_WAY = 16;

/** One piece of recorded work, to be recorded again when the chunk fails. */
interface Work {
  command: number;
  record: (timer: CallTimer | null) => void;
  kernel: LoadedKernel | null;
  arguments: readonly string[];
}

/**
 * Many commands under one set of error scopes and in one submission. When the scopes find an error nothing of the
 * submission ran; the work is then recorded again one by one, so that the error is told of the right command and what
 * came before it is done.
 */
export class Chunk {
  private works: Work[] = [];
  private kernels = new Set<LoadedKernel>();
  private made: { command: number; buffer: Buffer }[] = [];
  private captured: (() => Promise<ErrorReport | null>) | null = null;
  private commands = 0;
  private downloads = 0;
  private underWay: Promise<void>[] = [];

  constructor(
    private readonly engine: Engine,
    private readonly readback: Readback,
    private readonly timer: CallTimer | null,
    private readonly watchdog: Watchdog,
    private readonly signal: AbortSignal,
  ) {}

  get full(): boolean {
    return this.commands >= FULL;
  }

  /** Throws what is wrong with the command itself, after all before it was submitted by `abandon`. */
  add(number: number, command: Recorded): void {
    if (!NAMES_ONLY.has(command.op)) this.captured ??= captureErrors(this.engine.gpu.device);
    this.commands++;
    const { tensors } = this.engine;
    try {
      switch (command.op) {
        case "allocate": {
          const buffer = tensors.allocate(command.tensor, command);
          this.note(number, buffer);
          this.put(number, () => this.engine.commands.fill(buffer));
          break;
        }
        case "view":
          tensors.view(command.tensor, command.of, command.shape);
          break;
        case "copy":
          this.copy(number, command.of, command.tensor);
          break;
        case "call":
          this.call(number, command);
          break;
        case "download":
          this.download(number, command.tensor);
          break;
        case "free":
          for (const name of command.tensors) tensors.free(name);
          break;
        case "free_prefix":
          tensors.freePrefix(command.prefix);
          break;
        default:
          command satisfies never;
      }
    } catch (cause) {
      throw new DeviceFailure({ ...toErrorReport(cause), command: number, done: number });
    }
  }

  /** Submits what was recorded and waits until it is known to be sound. Throws the error of the first unsound one. */
  async end(): Promise<void> {
    const { gpu, commands, fence } = this.engine;
    if (!this.captured) return;
    commands.submit();
    const captured = this.captured();
    const { works, made } = this;
    const culprit = culpritOf(this.kernels);
    this.captured = null;
    this.works = [];
    this.kernels = new Set();
    this.made = [];
    this.commands = 0;
    if (works.length) this.underWay.push(fence.submitted(() => culprit));
    const textures = commands.textures.made();
    const error = await gpu.guard(captured, this.signal, this.watchdog);
    const without = await gpu.guard(textures, this.signal);
    if (without) throw new DeviceFailure({ ...without, ...culprit });
    for (const { command, buffer } of made) {
      const unmade = buffer.error && (await gpu.guard(buffer.error, this.signal));
      if (!unmade) continue;
      await this.again(works.filter((work) => work.command < command));
      throw new DeviceFailure({ ...unmade, command, done: command });
    }
    // Other errors than of validation may come after the work was done: it must not be done twice.
    if (error?.kind === "validation") await this.again(works);
    // What is found nowhere when it is looked for one by one is told of all.
    if (error && (error.kind !== "validation" || this.timer))
      throw new DeviceFailure({ ...error, ...culprit });
    if (this.underWay.length > MOST_UNDER_WAY) {
      const oldest = this.underWay.shift() as Promise<void>;
      await gpu.guard(oldest, this.signal, this.watchdog);
    }
  }

  /** After an error: what was recorded before it is done nevertheless. */
  abandon(): void {
    if (!this.captured) return;
    this.engine.commands.submit();
    void this.captured();
    this.captured = null;
  }

  private note(command: number, buffer: Buffer): void {
    if (buffer.error) this.made.push({ command, buffer });
  }

  private copy(number: number, of: string, name: string): void {
    const { tensors, commands } = this.engine;
    const [from, to] = [tensors.typeOf(of), tensors.typeOf(name)];
    if (from && to && bytesOf(from) !== bytesOf(to)) {
      const message = `tensor ${of}, ${describeType(from)}, cannot be copied to ${name}, ${describeType(to)}`;
      throw new DeviceFailure({ kind: "protocol", message });
    }
    this.makeWritable(number, name);
    const [source, target] = [tensors.buffer(of), tensors.buffer(name)];
    // Views of one tensor are equal.
    if (source === target) return;
    const bytes = paddedBytes(from ? bytesOf(from) : source.bytes);
    this.put(number, () => commands.copy(source, target, bytes));
  }

  /** Before something writes to a tensor that shares bytes with others of the same digest. */
  private makeWritable(number: number, name: string): void {
    const copied = this.engine.tensors.makeWritable(name);
    if (!copied) return;
    this.note(number, copied.own);
    this.put(number, () => this.engine.commands.copy(copied.source, copied.own));
  }

  private call(number: number, command: OperatorCall): void {
    const { tensors, buffers, libraries, commands } = this.engine;
    const kernel = libraries.get(command.library)?.get(command.kernel);
    if (!kernel) {
      const message = `there is no kernel ${command.kernel} in a library ${command.library} on this device`;
      throw new DeviceFailure({ kind: "protocol", message, kernel: command.kernel });
    }
    if (command.arguments.length < kernel.argumentCount) {
      const message = `kernel ${kernel.kernel} takes ${kernel.argumentCount} arguments, the call gives ${command.arguments.length}`;
      throw new DeviceFailure({ kind: "protocol", message, kernel: kernel.kernel });
    }
    const { dispatches, temporaries: sizes } = kernel.at(command.sizes);
    for (const index of kernel.written) this.makeWritable(number, command.arguments[index] as string);
    for (const [output, before] of kernel.overwrites)
      this.copy(number, command.arguments[before] as string, command.arguments[output] as string);
    const args = command.arguments.map((name) => tensors.buffer(name));
    const temporaries = sizes.map((bytes) => buffers.allocate(bytes));
    const record = (timer: CallTimer | null) =>
      commands.call(dispatches, args, temporaries, timer?.next() ?? null);
    this.put(number, record, kernel, command.arguments);
    this.kernels.add(kernel);
    // The queue keeps the order: whoever gets this memory next comes later.
    for (const temporary of temporaries) buffers.free(temporary);
  }

  private download(number: number, name: string): void {
    const source = this.engine.tensors.buffer(name);
    const place = this.downloads++;
    this.put(number, () => this.readback.record(this.engine.commands, place, source));
  }

  private put(
    command: number,
    record: Work["record"],
    kernel: LoadedKernel | null = null,
    args: readonly string[] = [],
  ): void {
    record(this.timer);
    this.works.push({ command, record, kernel, arguments: args });
  }

  /** Records work once more, untimed, each in its own scopes; throws the error of the first that has one. */
  private async again(works: readonly Work[]): Promise<void> {
    const { gpu, commands, tensors } = this.engine;
    for (const { command, record, kernel, arguments: names } of works) {
      const captured = captureErrors(gpu.device);
      record(null);
      commands.submit();
      const error = await gpu.guard(captured(), this.signal, this.watchdog);
      if (!error) continue;
      const about = kernel && {
        kernel: kernel.kernel,
        variant: kernel.variant.name,
        arguments: names.flatMap((name) => tensors.typeOf(name) ?? []),
      };
      throw new DeviceFailure({ ...error, command, done: command, ...about });
    }
  }
}

function culpritOf(kernels: ReadonlySet<LoadedKernel>): Partial<ErrorReport> {
  const [first, ...others] = kernels;
  if (!first) return {};
  if (!others.length) return { kernel: first.kernel, variant: first.variant.name };
  return { kernel: `one of ${[...kernels].map(({ kernel }) => kernel).join(", ")}`.slice(0, 500) };
}
