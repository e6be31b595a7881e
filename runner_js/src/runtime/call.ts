import type { CompiledFunction, CompiledModel, CompiledTensor } from "../compiled/generated/model";
import { DeviceFailure } from "../hal/errors";
import { paddedBytes } from "../hal/sizes";
import { bytesOf } from "../program/dtypes";
import { ExpressionError, type Sizes } from "../program/expressions";
import type { ErrorReport } from "../protocol/messages";
import type { Profile, RunOptions, RunResult, TensorInput } from "./api";
import type { CaptureSource, OperatorCapture } from "./capture";
import { Download, type Reading } from "./download";
import { DispatchTimer, Encoder } from "./encoder";
import { TapmlError } from "./error";
import type { Label, Region } from "./flat";
import type { Interpreter, Waiting } from "./interpret";
import type { ReadyKernel } from "./pipelines";
import type { Recording } from "./record";
import { OUTPUT_USAGE, type Session } from "./session";
import type { Recorded, States } from "./states";
import type { Writes } from "./together";
import { usedSymbols } from "./used";
import { arrayAt, type CheckedInput, checkCall, typeAt } from "./values";

export interface CallContext extends CaptureSource {
  model: CompiledModel;
  name: string;
  fn: CompiledFunction;
  session: Session;
  states: States;
  kernels: readonly ReadyKernel[];
  signal: AbortSignal;
  /** performance.now() */
  begun: number;
  profiled: boolean;
  /** What captures this call, asked for once it is known to be one. */
  capture(): OperatorCapture | null;
}

/** A call that is submitted: its results come without holding up the next one. */
export interface Issued {
  result(): Promise<RunResult | Profile>;
}

/** Runs a call up to its last submission. `broken` is told why where it ends with only a part of it submitted. */
export async function runCall(
  call: CallContext,
  given: Readonly<Record<string, TensorInput>>,
  options: RunOptions,
  broken: (why: string) => void,
): Promise<Issued> {
  const { fn, session, states, signal } = call;
  const { device } = session.gpu;
  const checked = checkCall(call.model, fn, usedSymbols(fn, call.kernels), given, options.sizes ?? {});
  const asked = checkOutputs(call, checked.inputs, options.outputs ?? {}, checked.sizes);
  const fresh: GPUBuffer[] = [];
  const isRead = asked.map((output) => typeof output === "number");
  const wanted = asked.map((output) => {
    if (typeof output === "number") return output;
    if ("unread" in output) return output.unread;
    if (!("fresh" in output)) return output;
    const made = device.createBuffer({ size: output.fresh, usage: OUTPUT_USAGE });
    fresh.push(made);
    return made;
  });
  const timer = call.profiled && session.gpu.timestamps ? new DispatchTimer(device) : null;
  const dropped = () => {
    timer?.destroy();
    for (const buffer of fresh) buffer.destroy();
  };
  let encoder: Encoder | null = null;
  let apart: Interpreter | null = null;
  const capture = call.capture();
  try {
    capture?.begin(session);
    const { recording, interpreter, writes } = prepared(call, checked.inputs, wanted, checked.sizes, capture);
    if (capture) apart = interpreter;
    const own =
      checked.inputs.some((input) => "buffer" in input) || wanted.some((one) => typeof one !== "number");
    // What the GPU has taken before, of the same buffers, it takes again.
    const known = !interpreter.rebind() && recording.proven && !own;
    const encoding = performance.now();
    const copies = givenOn(fn, checked.inputs, states, recording);
    const read = fn.outputs.flatMap(({ tensor }, i) => (isRead[i] ? [recording.region(tensor)] : []));
    const together =
      known && recording.plain && !timer && !capture ? session.together(writes, read, options) : null;
    let reading: Reading;
    if (together) {
      reading = together.add(writes, copies, (into) => interpreter.replay(into), read);
    } else {
      session.flush();
      for (const part of writes) session.write(...part);
      encoder = new Encoder(device, session.allocations, !known, timer);
      for (const part of copies) encoder.copy(...part);
      await interpreter.run(encoder, waitingOf(call, encoder));
      signal.throwIfAborted();
      const download = new Download(session, read);
      for (const part of download.parts) encoder.copyOut(...part);
      if (timer) encoder.resolve(timer);
      encoder.submit();
      reading = download;
    }
    fn.outputs.forEach(({ name, tensor }, i) => {
      const { of, index } = recording.region(tensor);
      const type = typeAt(fn.tensors[tensor] as CompiledTensor, checked.sizes);
      if (typeof wanted[i] === "number") states.leave(name, of[index] as GPUBuffer, type);
    });
    apart?.destroy();
    const submitted = performance.now();
    const finished = finish(call, encoder?.errors ?? [], reading, isRead, wanted, checked.sizes)
      .then(async (outputs) => {
        recording.proven = true;
        if (!call.profiled) return outputs;
        await session.gpu.guard(device.queue.onSubmittedWorkDone(), signal);
        const found = await profileOf(outputs, call, recording.flat.labels, timer, encoding, submitted);
        timer?.destroy();
        return found;
      })
      .catch((cause: unknown) => {
        dropped();
        if (cause instanceof DeviceFailure) call.states.forget(call.name);
        throw cause;
      });
    if (capture) {
      const collected = finished.then(() => capture.collect(checked.sizes, call, signal));
      collected.catch((cause: unknown) => capture.fail(cause));
    }
    return { result: () => finished };
  } catch (cause) {
    encoder?.drop();
    apart?.destroy();
    capture?.fail(cause);
    dropped();
    states.leaveNothing();
    if (encoder?.submissions) broken(`a call of ${call.name} ended in its middle (${describe(cause)})`);
    throw cause;
  }
}

/** The outputs of what is submitted. */
async function finish(
  { fn, session, signal }: CallContext,
  checks: readonly Promise<ErrorReport | null>[],
  download: Reading,
  isRead: readonly boolean[],
  wanted: readonly (GPUBuffer | number)[],
  sizes: Sizes,
): Promise<RunResult> {
  try {
    const [bytes, errors] = await Promise.all([
      download.bytes(signal),
      session.gpu.guard(Promise.all(checks), signal),
    ]);
    const error = errors.find((found) => found !== null);
    if (error) throw new DeviceFailure(error);
    const read = bytes.values();
    const outputs: RunResult = {};
    fn.outputs.forEach(({ name, tensor }, i) => {
      const buffer = wanted[i];
      if (typeof buffer === "object") outputs[name] = buffer;
      if (!isRead[i]) return;
      const type = typeAt(fn.tensors[tensor] as CompiledTensor, sizes);
      outputs[name] = arrayAt((read.next().value as Uint8Array).subarray(0, bytesOf(type)), type);
    });
    return outputs;
  } finally {
    download.release();
  }
}

/** Buffers are bound, the function recorded at its sizes, and what is to be written into inputs known. */
function prepared(
  { name, session, states, kernels }: CallContext,
  inputs: readonly CheckedInput[],
  outputs: readonly (GPUBuffer | number)[],
  sizes: Sizes,
  capture: OperatorCapture | null,
): Recorded & { writes: Writes } {
  const wanted = inputs.map((input) => {
    if ("buffer" in input) return input.buffer;
    return Math.max(4, "bytes" in input ? input.bytes.length : paddedBytes(bytesOf(input.type)));
  });
  const bound = states.bind(name, wanted, outputs);
  const writes = inputs.flatMap((input, i) => {
    const target = bound[i] as GPUBuffer;
    if ("output" in input) session.overwritten(target);
    return "bytes" in input && input.bytes.length ? [[target, input.bytes] as const] : [];
  });
  try {
    const recorded = capture ? states.apart(name, kernels, sizes, capture) : states.at(name, kernels, sizes);
    return { ...recorded, writes };
  } catch (cause) {
    if (!(cause instanceof ExpressionError)) throw cause;
    const fix = `build the model again: its program does not hold for ${JSON.stringify(sizes)}`;
    throw new TapmlError("program", cause.message, fix, { cause });
  }
}

/** Copies of what calls before left, to the inputs that are that. */
function givenOn(
  { inputs: ports }: CompiledFunction,
  inputs: readonly CheckedInput[],
  states: States,
  recording: Recording,
): [from: Region, to: Region][] {
  return inputs.flatMap((input, i) => {
    if (!("output" in input)) return [];
    const { name, tensor } = ports[i] as CompiledFunction["inputs"][number];
    return [[states.leftIn(input.output, name, input.type), recording.region(tensor)]];
  });
}

/** For each output the buffer that takes it, or its bytes: where it is read back, in a new buffer, or unread. */
function checkOutputs(
  { fn }: CallContext,
  inputs: readonly CheckedInput[],
  asked: NonNullable<RunOptions["outputs"]>,
  sizes: Sizes,
): (GPUBuffer | number | { fresh: number } | { unread: number })[] {
  const names = fn.outputs.map(({ name }) => name);
  for (const name of Object.keys(asked)) {
    if (!names.includes(name))
      throw new TapmlError("input", `there is no output ${name}`, `there are ${names.join(", ")}`);
  }
  const taken = inputs.flatMap((input) => ("buffer" in input ? [input.buffer] : []));
  return fn.outputs.map(({ name, tensor }) => {
    const bytes = paddedBytes(bytesOf(typeAt(fn.tensors[tensor] as CompiledTensor, sizes)));
    const buffer = Object.hasOwn(asked, name) ? asked[name] : undefined;
    if (!buffer) return bytes;
    if (buffer === "buffer") return { fresh: bytes };
    if (buffer === "unread") return { unread: bytes };
    const wrong = (what: string, fix: string) => {
      throw new TapmlError("input", `the buffer for output ${name} ${what}`, fix);
    };
    if (taken.includes(buffer))
      wrong("is an input of the call, or that of another output", "give each its own");
    if (buffer.size < bytes) wrong(`has ${buffer.size} bytes`, `the output takes ${bytes}`);
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
    if ((buffer.usage & usage) !== usage)
      wrong("cannot be written", "make it with STORAGE, COPY_SRC and COPY_DST");
    taken.push(buffer);
    return buffer;
  });
}

function waitingOf({ session, signal }: CallContext, encoder: Encoder): Waiting {
  return {
    async bytes(regions: readonly Region[]) {
      signal.throwIfAborted();
      const download = new Download(session, regions);
      try {
        for (const part of download.parts) encoder.copyOut(...part);
        encoder.submit();
        return await download.bytes(signal);
      } finally {
        download.release();
      }
    },
    guard: (promise) => session.gpu.guard(promise, signal),
  };
}

async function profileOf(
  outputs: RunResult,
  { begun }: CallContext,
  recorded: readonly Label[],
  timer: DispatchTimer | null,
  encoding: number,
  submitted: number,
): Promise<Profile> {
  const now = performance.now();
  const seconds = timer ? await timer.seconds() : null;
  const labels = timer?.labels ?? recorded;
  return {
    outputs,
    dispatches: labels.map((label, i) => ({ ...label, seconds: seconds?.[i] ?? null })),
    host: {
      prepare: (encoding - begun) / 1000,
      encode: (submitted - encoding) / 1000,
      wait: (now - submitted) / 1000,
      total: (now - begun) / 1000,
    },
  };
}

function describe(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
