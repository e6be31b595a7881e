/** What a task may use of its page, as its signed configuration and the page say. */
import type { AgentOptions, Found, TaskConfiguration, TaskModel } from "./api";
import type { ModelTensor } from "./messages";
import { atMost } from "./pull";
import type { Sampler } from "./samples";
import type { TaskTables } from "./storage/tables";
import type { Host } from "./vm";

const MOST_ANSWER = 10_000_000;
const METHODS = ["GET", "POST"];
const ARRAYS = {
  ...{ float32: Float32Array, float64: Float64Array, int32: Int32Array, uint32: Uint32Array },
  ...{ int8: Int8Array, uint8: Uint8Array, bool: Uint8Array, float16: Uint16Array },
};

export class TaskHost implements Host {
  private readonly models = new Map<string, Promise<TaskModel>>();

  constructor(
    private readonly task: string,
    private readonly configuration: TaskConfiguration,
    private readonly files: ReadonlyMap<string, Uint8Array<ArrayBuffer>>,
    private readonly options: AgentOptions,
    readonly emit: (name: string, value: unknown) => void,
    /** Null where it declares that it keeps nothing. */
    readonly tables: TaskTables | null,
    /** Null where nothing is sampled. */
    private readonly sampler: Sampler | null = null,
  ) {}

  add(table: unknown, row: unknown): void {
    this.kept().add(table, row);
  }

  async flush(): Promise<string> {
    return await this.kept().flush();
  }

  async sql(text: unknown, values: unknown): Promise<Found> {
    return await this.kept().sql(text, values);
  }

  async fetch(url: string, method: string, body: string | null): Promise<[number, Uint8Array]> {
    const { origin, href } = new URL(String(url));
    if (!this.configuration.needs.network.includes(origin))
      throw new Error(`task.json does not declare ${origin}`);
    if (!this.options.network?.includes(origin))
      throw new Error(`the page does not let tasks fetch from ${origin}`);
    if (!METHODS.includes(method))
      throw new Error(`tasks fetch by ${METHODS.join(" and ")}, not by ${method}`);
    // Without cookies, and not on to another origin.
    const answer = await (this.options.fetch ?? fetch)(href, {
      ...{ method, body: method === "POST" ? body : null, credentials: "omit", redirect: "error" },
      referrerPolicy: "no-referrer",
    });
    return [answer.status, await atMost(answer, MOST_ANSWER, href)];
  }

  async model(path: string, inputs: Record<string, ModelTensor>): Promise<unknown[]> {
    const model = await this.loaded(path);
    const given: Record<string, { data: never; shape: number[] }> = {};
    for (const [name, { dtype, shape, data }] of Object.entries(inputs)) {
      const Elements = ARRAYS[dtype as keyof typeof ARRAYS];
      given[name] = { data: new Elements(data) as never, shape };
    }
    const run = () => model.run(given);
    const found = await (this.sampler?.run(model, run) ?? run());
    return Object.entries(found).map(([name, data]) => {
      const array = data as InstanceType<(typeof ARRAYS)[keyof typeof ARRAYS]>;
      const shape = model.outputs.find((output) => output.name === name)?.shape ?? [];
      const known = shape.every((extent) => typeof extent === "number") ? shape : [array.length];
      return [name, dtypeOf(array), known, new Uint8Array(array.buffer, array.byteOffset, array.byteLength)];
    });
  }

  /** Whether calls of its models were sampled since it was asked last; once the samples have left. */
  async sampled(): Promise<boolean> {
    return (await this.sampler?.left()) ?? false;
  }

  /** Of rows that were added, those that are collected. */
  async write(): Promise<void> {
    await this.tables?.write();
  }

  /** Rows are written, and the models give back what they have on the GPU. */
  async close(): Promise<void> {
    for (const model of this.models.values()) void model.then((one) => one.dispose()).catch(() => {});
    this.models.clear();
    await this.write();
  }

  private kept(): TaskTables {
    if (this.tables === null) throw new Error("task.json declares nothing that the task keeps");
    return this.tables;
  }

  private loaded(path: string): Promise<TaskModel> {
    if (!this.configuration.needs.models.includes(path))
      throw new Error(`task.json does not declare the model ${path}`);
    const { load } = this.options;
    if (load === undefined)
      throw new Error("the page gives tasks no models: give `load` of @tapml/runtime to the agent");
    let model = this.models.get(path);
    if (model === undefined) {
      const place = `https://tapml.invalid/${this.task}/`;
      const get = async (url: string | URL | Request): Promise<Response> => {
        const file = this.files.get(String(url).slice(place.length));
        return file === undefined ? new Response(null, { status: 404 }) : new Response(file);
      };
      model = load(place + path, { fetch: get as typeof fetch, cache: false });
      this.models.set(path, model);
      model.catch(() => this.models.delete(path));
    }
    return model;
  }
}

function dtypeOf(array: ArrayBufferView): string {
  const name = array.constructor.name.replace(/Array$/, "").toLowerCase();
  return name in ARRAYS ? name : "uint8";
}
