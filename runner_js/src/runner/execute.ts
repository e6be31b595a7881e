import { DeviceFailure } from "../hal/errors";
import { Readback } from "../hal/readback";
import { captureErrors } from "../hal/scopes";
import type {
  Command,
  CompileProgress,
  DeviceError,
  ExecuteParams,
  ExecuteResult,
} from "../protocol/messages";
import { encodeLaunches, type KernelState } from "../tvm/kernels";
import { checkLaunches, writtenArguments } from "../tvm/launch";
import { type BufferPointer, dropPending } from "../tvm/tvmjs";
import { loadAhead } from "./ahead";
import { postDownloads } from "./blobs";
import { planDownloads } from "./command_plan";
import { bytesOf } from "./dtypes";
import type { Engine } from "./engine";
import { unsupportedKernels } from "./prepare";

type Upload = Extract<Command, { op: "upload" }>;
type OperatorCall = Extract<Command, { op: "call" }>;

/** Runs commands in order over the device's named tensors. What was done before an error stays done. */
export async function execute(
  engine: Engine,
  call: string,
  params: ExecuteParams,
  progress: (progress: CompileProgress) => void,
  signal: AbortSignal,
): Promise<ExecuteResult> {
  const start = performance.now();
  const since = (from: number) => (performance.now() - from) / 1000;
  const { gpu, tensors } = engine;
  const states = await readyKernels(engine, params, progress, signal);
  const compile = since(start);
  const sizes = planDownloads(params.commands, tensors.types());

  const running = performance.now();
  let fetch = 0;
  const uploads = params.commands.filter((command) => command.op === "upload");
  const pinned: string[] = [];
  const loaded = loadAhead(uploads, (upload) => bytesFor(engine, upload, pinned, signal));
  const errors: Promise<DeviceError | null>[] = [];
  const temporaries: BufferPointer[] = [];
  const stagingCaptured = captureErrors(gpu.device);
  const readback = new Readback(gpu.device, sizes);
  errors.push(stagingCaptured());
  try {
    let downloads = 0;
    for (const command of params.commands) {
      let data: ArrayBuffer | null = null;
      if (command.op === "upload") {
        const waiting = performance.now();
        data = await loaded();
        fetch += since(waiting);
        gpu.throwIfLost();
      }
      const captured = captureErrors(gpu.device);
      let thrown: unknown = null;
      try {
        if (command.op === "download") copyOut(engine, readback, downloads++, command.tensor);
        else if (command.op === "call") runOperator(engine, command, states, temporaries);
        else if (command.op === "upload") tensors.upload(command.tensor, command, command.digest, data);
        else if (command.op === "allocate") tensors.allocate(command.tensor, command);
        else if (command.op === "view") tensors.view(command.tensor, command.of, command.shape);
        else if (command.op === "free") tensors.free(command.tensor);
        else tensors.freePrefix(command.prefix);
      } catch (cause) {
        thrown = cause;
      }
      errors.push(captured().then((error) => error && located(error, command)));
      if (thrown) throw thrown;
    }
    const finished = params.commands.some((command) => command.op === "call")
      ? gpu.device.queue.onSubmittedWorkDone()
      : Promise.resolve();
    const mapped = readback.map().then(
      () => null,
      (cause: unknown) => cause,
    );
    const [found, unmapped] = await gpu.guard(Promise.all([Promise.all(errors), mapped, finished]), signal);
    const first = found.find((error) => error !== null);
    if (first) throw new DeviceFailure(first);
    if (unmapped) throw unmapped;
    const run = since(running) - fetch;
    if (sizes.length) {
      // A copy: what is mapped cannot outlive the buffer, and bodies are read when the network likes.
      const body = new Blob(sizes.map((_, i) => readback.bytes(i)));
      await postDownloads(call, body, signal);
    }
    return { downloads: sizes, seconds: { fetch, compile, run, total: since(start) } };
  } finally {
    readback.destroy();
    for (const pointer of temporaries) engine.buffers.free(pointer);
    for (const digest of pinned) engine.pristine.release(digest);
  }
}

/** All kernels compiled; throws for the first that cannot run here. */
async function readyKernels(
  engine: Engine,
  params: ExecuteParams,
  progress: (progress: CompileProgress) => void,
  signal: AbortSignal,
): Promise<Map<string, KernelState>> {
  const [unsupported] = unsupportedKernels(engine, params.kernels).values();
  if (unsupported)
    throw new DeviceFailure({
      ...unsupported,
      message: `kernel ${unsupported.kernel} ${unsupported.message}`,
    });
  const states = await engine.gpu.guard(engine.kernels.compile(params.kernels, signal, progress), signal);
  for (const state of states.values()) if (state.error) throw new DeviceFailure(state.error);
  return states;
}

/** Null where the device holds these bytes already; they are pinned there until the call ends. */
async function bytesFor(
  engine: Engine,
  upload: Upload,
  pinned: string[],
  signal: AbortSignal,
): Promise<ArrayBuffer | null> {
  if (engine.pristine.acquire(upload.digest) === undefined) {
    return engine.blobs.load(upload.digest, bytesOf(upload), signal);
  }
  pinned.push(upload.digest);
  return null;
}

function runOperator(
  engine: Engine,
  command: OperatorCall,
  states: ReadonlyMap<string, KernelState>,
  temporaries: BufferPointer[],
): void {
  const { context, tensors, buffers } = engine;
  const state = states.get(command.kernel);
  if (!state)
    throw new DeviceFailure({ kind: "protocol", message: `the call brings no kernel ${command.kernel}` });
  checkLaunches(state.kernel, command.launches, command.arguments.length, command.temporaries.length);
  for (const index of writtenArguments(state.kernel, command.launches)) {
    tensors.makeWritable(command.arguments[index] as string);
  }
  const operands = command.arguments.map((name) => tensors.buffer(name));
  const scratch = command.temporaries.map((bytes) => buffers.allocate(bytes));
  temporaries.push(...scratch);
  try {
    encodeLaunches(state, command.launches, operands, scratch);
    context.flushCommands();
  } catch (cause) {
    dropPending(context);
    throw cause;
  }
}

function copyOut(engine: Engine, readback: Readback, index: number, tensor: string): void {
  const { device } = engine.gpu;
  const encoder = device.createCommandEncoder();
  readback.encodeCopy(encoder, index, engine.buffers.gpu(engine.tensors.buffer(tensor)));
  device.queue.submit([encoder.finish()]);
}

/** A GPU error with the kernel or tensor it belongs to. */
function located(error: DeviceError, command: Command): DeviceError {
  if (command.op === "call") {
    return { ...error, kernel: command.kernel, message: `kernel ${command.kernel}: ${error.message}` };
  }
  const what = command.op === "free_prefix" ? `${command.prefix}*` : command.tensor;
  return { ...error, message: `${command.op} ${what}: ${error.message}` };
}
