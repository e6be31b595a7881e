import { loadAhead } from "../engine/ahead";
import { postDownloads } from "../engine/blobs";
import type { CallContext, Engine } from "../engine/engine";
import { DeviceFailure } from "../hal/errors";
import { captureErrors } from "../hal/scopes";
import { bytesOf, describeType } from "../program/dtypes";
import type { RunModelParams, RunModelResult } from "../protocol/messages";
import { callFunction, loadPipelines, makeTensor } from "../tvm/model";
import { instantiate, type TvmRuntime } from "../tvm/tvmjs";

const KERNELS_OF_A_MODEL = 10;

/** Runs a whole model in a tvmjs Instance of its own, over the device that all calls share. */
export async function runModel(call: CallContext, params: RunModelParams): Promise<RunModelResult> {
  const { engine, hangSeconds, progress, signal } = call;
  const { gpu, blobs, fence } = engine;
  // Of the runs whose kernels have all ended once: nothing tells how far they are.
  const whole = { seconds: KERNELS_OF_A_MODEL * hangSeconds, culprit: () => ({ kernel: params.function }) };
  const seconds: RunModelResult["seconds"] = { fetch: 0, instantiate: 0, compile: 0, upload: 0, runs: [] };
  const timed = async <T>(
    part: "fetch" | "instantiate" | "compile" | "upload",
    work: Promise<T>,
  ): Promise<T> => {
    const start = performance.now();
    const value = await gpu.guard(work, signal);
    seconds[part] += (performance.now() - start) / 1000;
    return value;
  };

  const wasm = await timed("fetch", blobs.load(params.wasm, null, signal));
  const replace = await timed("fetch", replacements(call, params));
  const runtime = await timed("instantiate", instantiate(wasm, gpu.device));
  const { instance } = runtime;
  instance.beginScope();
  try {
    const starting = performance.now();
    const vm = instance.createVirtualMachine(instance.webgpu());
    seconds.instantiate += (performance.now() - starting) / 1000;

    const compiling = performance.now();
    const compiled = (kernel: string, done: number, total: number) =>
      progress({ kind: "compile", kernel, done, total, seconds: (performance.now() - compiling) / 1000 });
    engine.beginCompiling(hangSeconds, progress);
    // The first run submits each kernel by itself, so that one that never ends is known; the others run as deployed.
    let alone = true;
    const dispatched = (kernel: string) => {
      if (!alone) return;
      runtime.context.flushCommands();
      void fence.submitted(() => ({ kernel }));
    };
    const pipelines = loadPipelines(runtime, vm, replace, engine.compilations, compiled, dispatched);
    await timed("compile", pipelines);

    const loaded = loadAhead(params.arguments, (ref) => blobs.load(ref.digest, bytesOf(ref), signal));
    const args = [];
    for (const ref of params.arguments) {
      const data = await timed("fetch", loaded());
      const uploading = performance.now();
      args.push(makeTensor(instance, ref.shape, ref.dtype, data));
      seconds.upload += (performance.now() - uploading) / 1000;
    }
    await timed("upload", instance.webgpu().sync());
    await throwBufferErrors(engine, runtime, signal);

    for (let run = 0; run < params.runs; run++) {
      const start = performance.now();
      const captured = captureErrors(gpu.device);
      // Dispatches are encoded and submitted before callFunction first waits.
      const watchdog = alone ? fence.watchdog(hangSeconds) : whole;
      const calling = callFunction(instance, vm, params.function, args);
      const errors = captured();
      const [outputs, error] = await gpu.guard(Promise.all([calling, errors]), signal, watchdog);
      seconds.runs.push((performance.now() - start) / 1000);
      if (error) throw new DeviceFailure(error);
      await throwBufferErrors(engine, runtime, signal);
      alone = false;
      if (run === 0) await sendOutputs(call, params, outputs);
    }
    return { downloads: params.outputs.map(bytesOf), seconds };
  } finally {
    dispose(runtime);
  }
}

async function replacements(call: CallContext, params: RunModelParams): Promise<Map<string, string>> {
  const { engine, signal } = call;
  const texts = Object.entries(params.replace).map(
    async ([name, digest]) => [name, await engine.blobs.wgsl(digest, `${name}.wgsl`, signal)] as const,
  );
  return new Map(await Promise.all(texts));
}

/** tvmjs makes the tensors of the virtual machine; whatever went wrong there is told before results are believed. */
async function throwBufferErrors(engine: Engine, runtime: TvmRuntime, signal: AbortSignal): Promise<void> {
  const errors = await engine.gpu.guard(Promise.all(runtime.bufferErrors.splice(0)), signal);
  const first = errors.find((error) => error !== null);
  if (first) throw new DeviceFailure(first);
}

async function sendOutputs(
  { engine, id, signal }: CallContext,
  params: RunModelParams,
  outputs: { bytes: Uint8Array[]; shapes: number[][] },
): Promise<void> {
  if (outputs.bytes.length !== params.outputs.length) {
    const message = `${params.function} gives ${outputs.bytes.length} outputs, ${params.outputs.length} are expected`;
    throw new DeviceFailure({ kind: "protocol", message });
  }
  params.outputs.forEach((type, i) => {
    const bytes = outputs.bytes[i]?.byteLength;
    if (bytes !== bytesOf(type)) {
      const message = `output ${i} of ${params.function} has shape [${outputs.shapes[i]}], ${bytes} bytes; expected ${describeType(type)}`;
      throw new DeviceFailure({ kind: "protocol", message });
    }
  });
  const downloads = outputs.bytes.map((bytes) => new Uint8Array(bytes));
  await postDownloads(engine.blobs, id, downloads, signal);
}

/** Frees the wasm side's tensors and buffers. Never throws: a trapped wasm may not even clean up. */
function dispose({ instance }: TvmRuntime): void {
  try {
    instance.endScope();
    instance.dispose();
  } catch (cause) {
    console.warn("the model's wasm could not be disposed of", cause);
  }
}
