import { loadAhead } from "../engine/ahead";
import { postDownloads } from "../engine/blobs";
import type { CallContext, Engine } from "../engine/engine";
import type { LoadedKernel } from "../engine/kernels";
import { cpuSeconds } from "../hal/cpu";
import { DeviceFailure, toErrorReport } from "../hal/errors";
import { Readback } from "../hal/readback";
import { captureErrors } from "../hal/scopes";
import { bytesOf } from "../program/dtypes";
import type { Command, ErrorReport, ExecuteParams, ExecuteResult } from "../protocol/messages";
import { Chunk } from "./chunk";
import { planDownloads } from "./command_plan";
import { CallTimer } from "./timer";
import { forget, streamUpload, type Uploaded, WORTH_STREAMING } from "./upload";

type Upload = Extract<Command, { op: "upload" }>;

/** Runs commands in order over the device's named tensors. What was done before an error stays done. */
export async function execute(call: CallContext, params: ExecuteParams): Promise<ExecuteResult> {
  const start = performance.now();
  const since = (from: number) => (performance.now() - from) / 1000;
  const { engine, hangSeconds, signal } = call;
  const { gpu, fence } = engine;
  const { commands } = params;
  const watchdog = fence.watchdog(hangSeconds);
  const { loaded, sizes } = await prepare(call, commands);
  const compile = since(start);

  const running = performance.now();
  const cpu = cpuSeconds();
  const seconds: ExecuteResult["seconds"] = { fetch: 0, compile, run: 0, total: 0, cpu: null };
  const variants: Record<string, string> = {};
  const small = (upload: Upload) => bytesOf(upload) < WORTH_STREAMING;
  const uploads = commands.filter((command) => command.op === "upload").filter(small);
  const pinned: string[] = [];
  const bytes = loadAhead(uploads, (upload) => bytesFor(call, upload, pinned));
  const errors: Promise<ErrorReport | null>[] = [];
  // An error scope is a round trip to the GPU process.
  const captured = sizes.length ? captureErrors(gpu.device) : null;
  const readback = new Readback(engine.stagings, sizes);
  if (captured) errors.push(captured());
  const timer = CallTimer.start(gpu, params);
  const chunk = new Chunk(engine, readback, timer, watchdog, signal);
  try {
    for (const [i, command] of commands.entries()) {
      switch (command.op) {
        case "load": {
          await chunk.end();
          const kernels = loaded.get(command) ?? new Map<string, LoadedKernel>();
          engine.libraries.set(command.library, kernels);
          for (const [name, { variant }] of kernels) variants[`${command.library}/${name}`] = variant.name;
          break;
        }
        case "unload":
          engine.libraries.delete(command.library);
          break;
        case "upload": {
          await chunk.end();
          const waiting = performance.now();
          const uploading = small(command)
            ? bytes().then((data) => uploadSmall(engine, command, data))
            : streamUpload(engine, command, signal, watchdog);
          const { error } = await uploading.catch((cause: unknown) => {
            throw signal.aborted || gpu.lost
              ? cause
              : new DeviceFailure({ ...toErrorReport(cause), command: i, done: i });
          });
          seconds.fetch += since(waiting);
          errors.push(error.then((found) => found && { ...found, command: i }));
          break;
        }
        case "sync":
          await chunk.end();
          await gpu.guard(gpu.device.queue.onSubmittedWorkDone(), signal, watchdog);
          break;
        default:
          if (chunk.full) await chunk.end();
          chunk.add(i, command);
      }
      gpu.throwIfLost();
    }
    await chunk.end();
    timer?.resolve(engine.commands);
    engine.commands.submit();
    if (errors.length) {
      const found = await gpu.guard(Promise.all(errors), signal, watchdog);
      const first = found.find((error) => error !== null);
      if (first) throw new DeviceFailure({ ...first, done: commands.length });
    }
    if (sizes.length) await gpu.guard(readback.map(), signal, watchdog);
    const gpuSeconds = timer ? await gpu.guard(timer.seconds(), signal, watchdog) : null;
    seconds.run = since(running) - seconds.fetch;
    if (cpu !== null) seconds.cpu = (cpuSeconds() ?? cpu) - cpu;
    if (sizes.length) {
      const downloads = sizes.map((_, i) => readback.bytes(i));
      await postDownloads(engine.blobs, call.id, downloads, signal);
    }
    seconds.total = since(start);
    const { live, liveBytes, idleBytes } = engine.buffers.statistics;
    const memory = { buffers: live, bytes: liveBytes, idle_bytes: idleBytes };
    return { downloads: sizes, variants, gpu_seconds: gpuSeconds, memory, seconds };
  } catch (cause) {
    // What was recorded before is done nevertheless; where it is to blame itself its error comes first.
    if (!gpu.lost && !signal.aborted) await chunk.end();
    throw cause;
  } finally {
    if (!gpu.lost) {
      chunk.abandon();
      // Nobody waits for what is still under way.
      fence.watch(hangSeconds);
      engine.buffers.trim();
      engine.commands.textures.trim();
    }
    readback.release();
    timer?.destroy();
    for (const digest of pinned) engine.cache.release(digest);
  }
}

/** What can be found to be wrong before anything is changed. */
async function prepare(
  call: CallContext,
  commands: readonly Command[],
): Promise<{ loaded: Map<Command, Map<string, LoadedKernel>>; sizes: number[] }> {
  try {
    const loaded = await loadLibraries(call, commands);
    return { loaded, sizes: planDownloads(commands, (name) => call.engine.tensors.typeOf(name)) };
  } catch (cause) {
    if (call.signal.aborted) throw cause;
    throw new DeviceFailure({ ...toErrorReport(cause), done: 0 });
  }
}

/** The kernels of every "load", compiled before anything runs; throws for the first that cannot run here. */
async function loadLibraries(
  call: CallContext,
  commands: readonly Command[],
): Promise<Map<Command, Map<string, LoadedKernel>>> {
  const found = new Map<Command, Map<string, LoadedKernel>>();
  for (const [i, command] of commands.entries()) {
    if (command.op !== "load") continue;
    const states = await call.engine.kernels.load(command.kernels, call);
    const kernels = new Map<string, LoadedKernel>();
    for (const [name, state] of states) {
      if ("error" in state) {
        const { error } = state;
        const message = error.kind === "unsupported" ? `kernel ${name}: ${error.message}` : error.message;
        throw new DeviceFailure({ ...error, message, command: i });
      }
      kernels.set(name, state);
    }
    found.set(command, kernels);
  }
  return found;
}

/** Null where the device holds these bytes already; they are pinned there until the call ends. */
async function bytesFor(
  { engine, signal }: CallContext,
  upload: Upload,
  pinned: string[],
): Promise<ArrayBuffer | null> {
  if (engine.cache.acquire(upload.digest) === undefined) {
    return engine.blobs.load(upload.digest, bytesOf(upload), signal);
  }
  pinned.push(upload.digest);
  return null;
}

function uploadSmall(engine: Engine, upload: Upload, data: ArrayBuffer | null): Uploaded {
  const captured = captureErrors(engine.gpu.device);
  let thrown: ErrorReport | null = null;
  try {
    engine.tensors.upload(upload.tensor, upload, upload.digest, data);
  } catch (cause) {
    thrown = toErrorReport(cause);
  }
  const error = captured().then((found) => {
    const report = thrown ?? found;
    if (report) forget(engine, upload);
    return report;
  });
  return { error };
}
