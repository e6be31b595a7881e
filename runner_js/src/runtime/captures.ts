import type { CompiledModel } from "../compiled/generated/model";
import type { Capture, CaptureOptions } from "./api";
import { OperatorCapture } from "./capture";
import { TapmlError } from "./error";

/** By function, what captures its next call. */
export class Captures {
  readonly #waiting = new Map<string, OperatorCapture>();

  constructor(private readonly document: CompiledModel) {}

  /** Is the next call of a function captured? */
  has(name: string): boolean {
    return this.#waiting.has(name);
  }

  /** Of the next call of a function, whoever makes it. Throws a TapmlError where another waits for that. */
  async next(name: string, options: CaptureOptions, signal: AbortSignal): Promise<Capture> {
    const capture = new OperatorCapture(this.document, name, options);
    if (this.#waiting.has(name)) {
      const fix = "wait for it, or end it by its signal";
      throw new TapmlError("input", `the next call of ${name} is captured already`, fix);
    }
    this.#waiting.set(name, capture);
    const abort = () => {
      if (this.#waiting.get(name) === capture) this.#waiting.delete(name);
      capture.abandon(signal.reason);
    };
    signal.addEventListener("abort", abort);
    try {
      return await capture.result;
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }

  /** What captures the call of a function that is made now. */
  take(name: string): OperatorCapture | null {
    const capture = this.#waiting.get(name) ?? null;
    this.#waiting.delete(name);
    return capture;
  }

  /** No call comes any more. */
  abandon(): void {
    for (const capture of this.#waiting.values()) capture.abandon(null);
    this.#waiting.clear();
  }
}
