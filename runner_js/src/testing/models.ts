/** Models on a device in node, and what they throw: the set-up of the runtime's tests. */
import { afterAll, afterEach, beforeAll, expect, vi } from "vitest";
import { type LoadOptions, load, type Model, TapmlError } from "../runtime/index";
import { type ModelText, modelOf, type TestModel } from "./compiled";
import { type CountedGpu, countedGpu } from "./gpus";

/** Models on one counted device: each is disposed of after its test, and leaves no buffer there. */
export class Models {
  private device: CountedGpu | null = null;
  private readonly opened: Model[] = [];

  constructor() {
    beforeAll(async () => {
      this.device = await countedGpu();
    });
    afterEach(() => {
      vi.restoreAllMocks();
      vi.unstubAllGlobals();
      for (const model of this.opened.splice(0)) model.dispose();
      expect(this.here.live.size).toBe(0);
    });
    afterAll(() => {
      this.here.gpu.device.destroy();
    });
  }

  get here(): CountedGpu {
    if (!this.device) throw new Error("there is a device in tests alone");
    return this.device;
  }

  async open(served: TestModel, options: LoadOptions = {}): Promise<Model> {
    const own = { device: this.here.gpu, fetch: served.fetch, unvalidated: "ignore" } as const;
    const model = await load(served.url, { ...own, ...options });
    return this.keep(model);
  }

  async of(text: ModelText, options: LoadOptions = {}): Promise<Model> {
    return this.open(await modelOf(text), options);
  }

  /** Is disposed of with the others. */
  keep(model: Model): Model {
    this.opened.push(model);
    return model;
  }
}

/** "kind: sentence: fix" of what is thrown. */
export async function fault(promise: Promise<unknown>): Promise<string> {
  const cause = await promise.then(
    () => new Error("nothing was thrown"),
    (thrown: unknown) => thrown,
  );
  if (!(cause instanceof TapmlError)) throw cause;
  return `${cause.kind}: ${cause.message}`;
}
