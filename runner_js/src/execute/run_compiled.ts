import { type Blobs, postDownloads } from "../engine/blobs";
import type { CallContext, Engine } from "../engine/engine";
import { DeviceFailure } from "../hal/errors";
import { arrayOf, bytesOf, decoded } from "../program/dtypes";
import type { CaptureParams, RunCompiledParams, RunCompiledResult, TensorRef } from "../protocol/messages";
import { load, type Model, type RunResult, TapmlError } from "../runtime";

/** The model as the runtime asks for it: a folder, whose files are blobs of the server. */
const ADDRESS = "https://tapml.invalid/model/";
const SHARD = /^weights\/([0-9a-f]{64})\.bin$/;
const OPERATOR = /^operators\/(.+)\.json$/;
const KERNELS_OF_A_MODEL = 10;

/** Runs a compiled model as a page does: with the runtime, on the device that all calls share. */
export async function runCompiled(call: CallContext, params: RunCompiledParams): Promise<RunCompiledResult> {
  const { engine, hangSeconds, signal } = call;
  // What runs is many kernels, and nothing tells how far they are.
  const whole = { seconds: KERNELS_OF_A_MODEL * hangSeconds, culprit: () => ({ kernel: params.function }) };
  const guarded = <T>(work: Promise<T>) => engine.gpu.guard(work, signal, whole);
  const start = performance.now();
  try {
    const fetch = fetchBlobs(engine.blobs, params, signal);
    const model = await guarded(
      load(ADDRESS, { device: engine.gpu, fetch, cache: false, unvalidated: "ignore", signal }),
    );
    try {
      const called = model.functions[params.function];
      if (!called)
        throw new DeviceFailure({ kind: "protocol", message: `there is no function ${params.function}` });
      const seconds = { load: secondsSince(start), calls: [] as number[] };
      const downloads: Uint8Array<ArrayBuffer>[] = [];
      let file: Promise<Blob> | null = null;
      for (const [number, refs] of params.calls.entries()) {
        const inputs = await inputsOf(engine, refs, signal);
        const last = number === params.calls.length - 1;
        for (let run = 0; run <= (last ? params.repeat : 0); run++) {
          if (last && run === 0 && params.capture) file = captured(model, params, params.capture, signal);
          const begun = performance.now();
          const outputs = await guarded(called.run(inputs, { signal }));
          seconds.calls.push(secondsSince(begun));
          if (run === 0) downloads.push(...called.outputs.map(({ name }) => bytesOfData(outputs[name])));
        }
      }
      const more = file ? [new Uint8Array(await (await file).arrayBuffer())] : [];
      await postDownloads(engine.blobs, call.id, [...downloads, ...more], signal);
      const { variants, memory } = model;
      return {
        downloads: downloads.map((data) => data.byteLength),
        captured: more[0]?.byteLength ?? 0,
        variants,
        bytes: memory.total,
        seconds,
      };
    } finally {
      model.dispose();
    }
  } catch (cause) {
    throw reported(cause);
  }
}

/** The file of what is captured of the function's next call. */
function captured(
  model: Model,
  { function: name }: RunCompiledParams,
  { nodes, sample, max_bytes: maxBytes, weights }: CaptureParams,
  signal: AbortSignal,
): Promise<Blob> {
  const options = { function: name, sample, maxBytes, weights, signal, ...(nodes ? { nodes } : {}) };
  const file = model.capture(options).then((capture) => capture.file);
  file.catch(() => {}); // the call itself may fail first
  return file;
}

/** A page's fetch, of a model whose parts are known by their digests. */
function fetchBlobs(blobs: Blobs, { model: document, capture }: RunCompiledParams, signal: AbortSignal) {
  return (url: string, init?: RequestInit): Promise<Response> => {
    const name = url.slice(ADDRESS.length);
    const operator = OPERATOR.exec(name)?.[1] ?? "";
    const digest = name === "model.json" ? document : (SHARD.exec(name)?.[1] ?? capture?.operators[operator]);
    if (!url.startsWith(ADDRESS) || !digest) return Promise.resolve(new Response(null, { status: 404 }));
    return blobs.request(`/blobs/${digest}`, { ...init, signal: init?.signal ?? signal });
  };
}

/** As a page gives them. */
async function inputsOf(engine: Engine, refs: Record<string, TensorRef>, signal: AbortSignal) {
  const found = Object.entries(refs).map(async ([name, ref]) => {
    const stored = new Uint8Array(await engine.blobs.load(ref.digest, bytesOf(ref), signal));
    return [name, { data: arrayOf(decoded(stored, ref), ref.dtype), shape: ref.shape }] as const;
  });
  return Object.fromEntries(await Promise.all(found));
}

function bytesOfData(data: RunResult[string] | undefined): Uint8Array<ArrayBuffer> {
  if (!ArrayBuffer.isView(data)) throw new Error("an output is no array");
  return new Uint8Array(data.buffer as ArrayBuffer, data.byteOffset, data.byteLength);
}

/** An error of the runtime as one that a call may have. */
function reported(cause: unknown): unknown {
  if (!(cause instanceof TapmlError)) return cause;
  if (cause.cause instanceof DeviceFailure) return cause.cause;
  const { kind, message } = cause;
  if (kind === "unsupported" || kind === "device-lost" || kind === "input")
    return new DeviceFailure({ kind, message });
  if (kind === "download") return new DeviceFailure({ kind: "fetch", message });
  if (kind === "memory") return new DeviceFailure({ kind: "out-of-memory", message });
  return new DeviceFailure({ kind: "protocol", message });
}

function secondsSince(start: number): number {
  return (performance.now() - start) / 1000;
}
