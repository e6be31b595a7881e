/** @tapml/agent/gpu: functions of tasks' large arrays and images on the page's GPU (docs/field.md). */
import { ARRAY_KERNELS } from "./array_kernels";
import { documentOf, type KernelText } from "./document";
import { IMAGE_KERNELS } from "./image_kernels";
import { type Asked, type Connection, DONE, FAILED, HEAD, type Numbers, type Step } from "./messages";

/** Of a model of @tapml/runtime, what is used here. */
export interface KernelModel {
  readonly functions: Readonly<
    Record<string, { run(inputs: never, options: never): Promise<Record<string, unknown>> }>
  >;
  dispose(): void;
}

export interface GpuArraysOptions {
  /** `load` of @tapml/runtime. */
  readonly load: (
    url: string,
    options: { fetch: typeof fetch; cache: boolean; unvalidated: "ignore"; device?: never },
  ) => Promise<KernelModel>;
  /** One of the page's own; without it that which all models share. */
  readonly device?: unknown;
  /** What takes fewer milliseconds on typed arrays is computed there: 4 if nothing is said. */
  readonly least?: number;
  /** Told when a VM computes by itself because of it: there is no GPU, it was lost, it has too little memory. */
  readonly onFailure?: (cause: unknown) => void;
}

/** Arrays of an agent's tasks on the GPU: its option `arrays`. */
export interface GpuArrays {
  /** For one VM. */
  connect(): Connection;
  /** Of the GPU, in billions of multiplications a second: what a profile tells as `speed`. Null where there is none. */
  speed(): Promise<number | null>;
  /** How many requests the GPU has answered, and how many it left to the VM. */
  readonly counts: { readonly answered: number; readonly failed: number };
  close(): void;
}

const KERNELS: Readonly<Record<string, readonly KernelText[]>> = { ...ARRAY_KERNELS, ...IMAGE_KERNELS };
const PLACE = "https://tapml.invalid/";
const LEAST = 4;
const MOST_STEPS = 2;
/** Of the matrices by whose product a speed is measured, and how often. */
const SIDE = 256;
const TURNS = 5;
/** Multiplications of one request, at most: a GPU that computes for seconds is taken away. */
const MOST_WORK = 2 ** 35;

export function arraysOnGpu(options: GpuArraysOptions): GpuArrays {
  return new PageArrays(options);
}

class PageArrays implements GpuArrays {
  private readonly models = new Map<string, Promise<KernelModel>>();
  private readonly ports = new Set<MessagePort>();
  /** One request after the other: what a step leaves is the next one's. */
  private turn: Promise<unknown> = Promise.resolve();
  readonly counts = { answered: 0, failed: 0 };
  private measured: Promise<number | null> | null = null;

  constructor(private readonly options: GpuArraysOptions) {}

  connect(): Connection {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data }) => {
      this.turn = this.turn.then(() => this.answer(data));
    };
    this.ports.add(port1);
    // Told where browsers tell it: the VM has ended.
    port1.addEventListener("close", () => this.ports.delete(port1));
    return { port: port2, least: this.options.least ?? LEAST };
  }

  speed(): Promise<number | null> {
    this.measured ??= this.measure().catch((cause: unknown) => {
      this.options.onFailure?.(cause);
      return null;
    });
    return this.measured;
  }

  /** Of a product of two matrices, as soon as others are answered; the best of several, for the first ones wake a GPU up. */
  private async measure(): Promise<number> {
    const model = await this.model("matmul_float32");
    const n = SIDE;
    const x = new Float32Array(n * n).fill(1);
    const inputs = { x, y: x, starts: new Uint32Array(2) };
    const sizes = { n, k: n, m: n, pairs: 1, xs: n * n, ys: n * n, size: n * n };
    const asked = { kernel: "matmul_float32", steps: [{ function: "matmul", inputs }], sizes };
    let best = Number.POSITIVE_INFINITY;
    for (let turn = 0; turn < TURNS; turn++) {
      const run = this.turn.then(async () => {
        const began = performance.now();
        await this.run(model, asked);
        best = Math.min(best, performance.now() - began);
      });
      this.turn = run.catch(() => {});
      await run;
    }
    return Number((n ** 3 / 1e6 / best).toPrecision(3));
  }

  close(): void {
    for (const port of this.ports) port.close();
    this.ports.clear();
    for (const name of this.models.keys()) this.forget(name);
  }

  /** Never rejects. */
  private async answer(given: unknown): Promise<void> {
    const answer = (given as Partial<Asked> | null)?.answer;
    if (!(answer instanceof SharedArrayBuffer) || answer.byteLength < HEAD) return;
    const state = new Int32Array(answer, 0, 1);
    let told = FAILED;
    try {
      const request = checked(given);
      const model = await this.model(request.kernel);
      const began = performance.now();
      const found = await this.run(model, request);
      if (found.byteLength !== answer.byteLength - HEAD) throw new RangeError("the answer has no such size");
      new Uint8Array(answer, HEAD).set(new Uint8Array(found.buffer, found.byteOffset, found.byteLength));
      new Float32Array(answer, 4, 1)[0] = performance.now() - began;
      told = DONE;
      this.counts.answered += 1;
    } catch (cause) {
      this.counts.failed += 1;
      this.options.onFailure?.(cause);
    }
    Atomics.store(state, 0, told);
    Atomics.notify(state, 0);
  }

  private async run(model: KernelModel, { kernel, steps, sizes }: Omit<Asked, "answer">): Promise<Numbers> {
    const functions = KERNELS[kernel] as readonly KernelText[];
    let left = "";
    let found: Record<string, unknown> = {};
    try {
      for (const [at, step] of steps.entries()) {
        const text = functions.find(({ name }) => name === step.function) as KernelText;
        const inputs = Object.fromEntries(
          text.inputs.map(({ name }) => [name, this.input(step, name, left)]),
        );
        const known = Object.fromEntries(Object.keys(text.sizes).map((name) => [name, sizes[name]]));
        left = text.output.name;
        const outputs = at < steps.length - 1 ? { [left]: "unread" } : {};
        found = (await model.functions[step.function]?.run(
          inputs as never,
          { sizes: known, outputs } as never,
        )) as Record<string, unknown>;
      }
    } catch (cause) {
      // After a device that was lost there is another one, perhaps.
      this.forget(kernel);
      throw cause;
    }
    return found[left] as Numbers;
  }

  private input({ inputs }: Step, name: string, left: string): unknown {
    const data = inputs[name];
    return data ?? (name === left ? { output: left } : undefined);
  }

  private model(kernel: string): Promise<KernelModel> {
    let model = this.models.get(kernel);
    if (model === undefined) {
      const document = documentOf(kernel, KERNELS[kernel] as readonly KernelText[]);
      const get = async (url: string | URL | Request): Promise<Response> =>
        String(url).endsWith("/model.json")
          ? new Response(JSON.stringify(document))
          : new Response(null, { status: 404 });
      const { load, device } = this.options;
      const own = device === undefined ? {} : { device: device as never };
      model = load(`${PLACE}${kernel}/`, {
        ...{ fetch: get as typeof fetch, cache: false, unvalidated: "ignore" },
        ...own,
      });
      this.models.set(kernel, model);
      model.catch(() => this.models.delete(kernel));
    }
    return model;
  }

  private forget(kernel: string): void {
    void this.models.get(kernel)?.then(
      (model) => model.dispose(),
      () => {},
    );
    this.models.delete(kernel);
  }
}

/** Throws for what no VM's own side would ask. Shapes and sizes are the runtime's matter. */
function checked(given: unknown): Asked {
  const { kernel, steps, sizes } = given as Asked;
  const functions =
    typeof kernel === "string" && Object.hasOwn(KERNELS, kernel) ? KERNELS[kernel] : undefined;
  if (functions === undefined || !Array.isArray(steps) || steps.length < 1 || steps.length > MOST_STEPS)
    throw new TypeError("this asks for no kernel");
  if (typeof sizes !== "object" || sizes === null) throw new TypeError("these are no sizes");
  const all = Object.values(sizes);
  if (!all.every((size) => Number.isSafeInteger(size) && size > 0)) throw new TypeError("these are no sizes");
  for (const step of steps) {
    const known = functions.some(({ name }) => name === step?.function);
    if (!known || typeof step.inputs !== "object" || step.inputs === null)
      throw new TypeError("this asks for no function");
  }
  if (workOf(sizes) > MOST_WORK) throw new RangeError("that is too much for one request");
  return given as Asked;
}

function workOf(sizes: Asked["sizes"]): number {
  const of = (...names: string[]) => names.reduce((product, name) => product * (sizes[name] ?? 1), 1);
  if (sizes.k !== undefined) return of("pairs", "n", "k", "m");
  return of("height", "w", "channels", "taps") + of("h", "w", "channels", "rowTaps");
}
