/** Texts that calls leave for those behind them: a model on the device, and a writer for each text. */
import type { CallContext } from "../engine/engine";
import { type DecoderModel, type DecoderSequence, Writer } from "../generation";
import type { KeptTexts } from "../protocol/messages";
import type { Inputs, Model, ModelFunction, RunOptions, Sequence } from "../runtime";
import { type Guarded, opened, reporting } from "./compiled_model";

/** A model, and what writes the text of a number. */
export interface Writers {
  model: Model;
  writer: (text: number) => Promise<Writer>;
}

/**
 * With the model as calls before left it, and its texts: those that are forked, and without those that are given back. What is
 * not here (another device was lost) is computed again of the tokens that the call brings.
 */
export async function withKept<T>(
  call: CallContext,
  document: string,
  { writer, forks, drop }: KeptTexts,
  use: (on: Writers) => Promise<T>,
): Promise<T> {
  const { kept } = call.engine;
  return reporting(async () => {
    const model = await KeptModel.of(call, document);
    try {
      for (const [made, of] of Object.entries(forks)) await model.fork(made, of);
      for (const name of drop) model.drop(name);
      return await use({ model: model.model, writer: () => model.writer(writer) });
    } catch (cause) {
      // A text that was aborted goes on; of anything else nobody knows what it left.
      if (!call.signal.aborted) model.dropAll();
      throw cause;
    } finally {
      if (!model.texts.size) {
        kept.delete(document);
        model.dispose();
      }
    }
  });
}

class KeptModel {
  readonly texts = new Map<string, { writer: Writer; dispose(): void }>();

  private constructor(
    readonly model: Model,
    private readonly guarded: Guarded,
    private readonly calls: { now: CallContext },
  ) {}

  static async of(call: CallContext, document: string): Promise<KeptModel> {
    const found = call.engine.kept.get(document);
    if (found instanceof KeptModel) {
      found.calls.now = call;
      return found;
    }
    const calls = { now: call };
    const { model, guarded } = await opened(() => calls.now, { document, operators: {} }, "generate");
    const made = new KeptModel(model, guarded, calls);
    call.engine.kept.set(document, made);
    return made;
  }

  async writer(name: string): Promise<Writer> {
    const found = this.texts.get(name);
    if (found) return found.writer;
    const sequence = await this.model.sequence();
    const writer = new Writer(watched(sequence, this.guarded), null);
    this.texts.set(name, { writer, dispose: () => sequence.dispose() });
    return writer;
  }

  async fork(name: string, of: string): Promise<void> {
    const found = this.texts.get(of);
    if (!found) return;
    const writer = await found.writer.fork();
    this.texts.set(name, { writer, dispose: () => writer.dispose() });
  }

  drop(name: string): void {
    this.texts.get(name)?.dispose();
    this.texts.delete(name);
  }

  dropAll(): void {
    for (const name of [...this.texts.keys()]) this.drop(name);
  }

  dispose(): void {
    this.model.dispose();
  }
}

/** How a model's function is called. */
type Run = (
  name: string,
  fn: ModelFunction,
  inputs: Inputs,
  options?: RunOptions,
) => Promise<Record<string, unknown>>;

/** A model whose calls are watched. What a device that is lost did is the call's to tell, and no page's to mend. */
export function watched(
  model: Model | Sequence,
  guarded: Guarded,
  run: Run = (_, fn, inputs, options) => fn.run(inputs, options),
): DecoderModel {
  let failed: unknown;
  const functions = Object.entries(model.functions).map(([name, fn]) => {
    const watchedRun: DecoderModel["functions"][string]["run"] = (inputs, options) => {
      const work = run(name, fn, inputs, options);
      work.catch((cause) => {
        failed = cause;
      });
      return guarded(work);
    };
    return [name, { run: watchedRun }] as const;
  });
  return {
    name: model.name,
    generation: model.generation,
    get stateVersion() {
      return model.stateVersion;
    },
    functions: Object.fromEntries(functions),
    reset: () => model.reset(),
    reload: () => Promise.reject(failed),
    fork: async (): Promise<DecoderSequence> => {
      const forked = await guarded(model.fork());
      const found = watched(forked, guarded);
      return Object.defineProperty(found, "dispose", { value: () => forked.dispose() }) as DecoderSequence;
    },
  };
}
