import { postDownloads } from "../engine/blobs";
import type { CallContext, Engine } from "../engine/engine";
import { DeviceFailure } from "../hal/errors";
import { arrayOf, bytesOf, decoded } from "../program/dtypes";
import type { CaptureParams, RunCompiledParams, RunCompiledResult, TensorRef } from "../protocol/messages";
import type { Model, ModelFunction, RunResult } from "../runtime";
import { secondsSince, withModel } from "./compiled_model";

/** Runs a compiled model as a page does: with the runtime, on the device that all calls share. */
export async function runCompiled(call: CallContext, params: RunCompiledParams): Promise<RunCompiledResult> {
  const { engine, signal } = call;
  const start = performance.now();
  const served = { document: params.model, operators: params.capture?.operators ?? {} };
  return withModel(call, served, params.function, async (model, guarded) => {
    const called = functionOf(model, params.function);
    for (const { function: name, inputs } of params.before ?? []) {
      const former = functionOf(model, name);
      await guarded(former.run(await inputsOf(engine, inputs, signal), { signal }));
    }
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
  });
}

function functionOf(model: Model, name: string): ModelFunction {
  const found = model.functions[name];
  if (!found) throw new DeviceFailure({ kind: "protocol", message: `there is no function ${name}` });
  return found;
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

/** As a page gives them. */
export async function inputsOf(engine: Engine, refs: Record<string, TensorRef>, signal: AbortSignal) {
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
