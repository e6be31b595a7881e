/** Compiled models as calls run them: as pages do, with the runtime, on the device that all calls share. */
import type { Blobs } from "../engine/blobs";
import type { CallContext } from "../engine/engine";
import { DeviceFailure } from "../hal/errors";
import { load, type Model, TapmlError } from "../runtime";

/** The model as the runtime asks for it: a folder, whose files are blobs of the server. */
const ADDRESS = "https://tapml.invalid/model/";
const SHARD = /^weights\/([0-9a-f]{64})\.bin$/;
const OPERATOR = /^operators\/(.+)\.json$/;
const KERNELS_OF_A_MODEL = 10;

/** Digests of a model's document, and of what its operators compute as far as they are wanted. */
export interface Served {
  document: string;
  operators: Readonly<Record<string, string>>;
}

/** The device is taken for hung where the work takes as long as many kernels that hang. */
export type Guarded = <T>(work: Promise<T>) => Promise<T>;

/** What `use` makes of a model, which is loaded before and disposed of after. `running`: who is to blame where it hangs. */
export async function withModel<T>(
  call: CallContext,
  served: Served,
  running: string,
  use: (model: Model, guarded: Guarded) => Promise<T>,
): Promise<T> {
  return reporting(async () => {
    const { model, guarded } = await opened(() => call, served, running);
    try {
      return await use(model, guarded);
    } finally {
      model.dispose();
    }
  });
}

/** A model for calls that follow one another: `call` is the one that is under way. */
export async function opened(
  call: () => CallContext,
  served: Served,
  running: string,
): Promise<{ model: Model; guarded: Guarded }> {
  const guarded: Guarded = (work) => {
    const { engine, hangSeconds, signal } = call();
    // What runs is many kernels, and nothing tells how far they are.
    const whole = { seconds: KERNELS_OF_A_MODEL * hangSeconds, culprit: () => ({ kernel: running }) };
    return engine.gpu.guard(work, signal, whole);
  };
  const { engine } = call();
  const fetch = fetchBlobs(engine.blobs, served, () => call().signal);
  const options = { device: engine.gpu, fetch, cache: false, unvalidated: "ignore" } as const;
  return { model: await guarded(load(ADDRESS, { ...options, signal: call().signal })), guarded };
}

/** What work gives, with errors of the runtime as those that a call may have. */
export async function reporting<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    throw reported(cause);
  }
}

/** A page's fetch, of a model whose parts are known by their digests. */
function fetchBlobs(blobs: Blobs, { document, operators }: Served, signal: () => AbortSignal) {
  return (url: string, init?: RequestInit): Promise<Response> => {
    const name = url.slice(ADDRESS.length);
    const operator = OPERATOR.exec(name)?.[1] ?? "";
    const digest = name === "model.json" ? document : (SHARD.exec(name)?.[1] ?? operators[operator]);
    if (!url.startsWith(ADDRESS) || !digest) return Promise.resolve(new Response(null, { status: 404 }));
    return blobs.request(`/blobs/${digest}`, { ...init, signal: init?.signal ?? signal() });
  };
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

export function secondsSince(start: number): number {
  return (performance.now() - start) / 1000;
}
