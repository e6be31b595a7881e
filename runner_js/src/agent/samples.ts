/** What GPUs compute for a task's models, a share of it: captured, and sent to be computed again (docs/field.md). */
import type { Sampled, TaskModel } from "./api";
import type { Sampling } from "./documents";

/** The service takes no more. */
const MOST_BYTES = 16 << 20;

/** What samples are taken by, of one version of a task. */
export interface SampledBy {
  readonly rates: Sampling;
  /** The page's word: asked before a call is captured, and again before the capture leaves. */
  consent(): boolean;
  /** Whether the service counts it. Rejects where it cannot be reached. */
  send(file: Blob): Promise<boolean>;
  sampled(what: Omit<Sampled, "task" | "version">): void;
  /** From 0 to 1. */
  random(): number;
}

export class Sampler {
  private pending: Promise<void>[] = [];

  constructor(private readonly by: SampledBy) {}

  /** `run`, which is one call of `model`; captured where that is drawn and allowed. What is wrong with a capture is never the call's. */
  async run<T>(model: TaskModel, run: () => Promise<T>): Promise<T> {
    const { rates, random } = this.by;
    if (model.capture === undefined || random() >= rates.runs || !this.by.consent()) return await run();
    const stop = new AbortController();
    const capture = model.capture({ sample: rates.operators, signal: stop.signal });
    this.pending.push(
      capture.then(
        ({ file, operators }) => this.leave(file, operators.length),
        () => {},
      ),
    );
    try {
      return await run();
    } catch (cause) {
      stop.abort(cause); // a call that was refused is none, and the capture would wait for the next one
      throw cause;
    }
  }

  /** Of the calls since it was asked last: resolves to whether there were any once they have left. */
  async left(): Promise<boolean> {
    const pending = this.pending;
    this.pending = [];
    await Promise.all(pending);
    return pending.length > 0;
  }

  private async leave(file: Blob, operators: number): Promise<void> {
    if (operators === 0 || file.size > MOST_BYTES || !this.by.consent()) return;
    const counted = await this.by.send(file).catch(() => null);
    if (counted !== null) this.by.sampled({ bytes: file.size, operators, counted, at: Date.now() });
  }
}
