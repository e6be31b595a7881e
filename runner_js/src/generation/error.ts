/** `input`: what was asked for cannot be; `model`: what the model gave is nothing to choose from. */
export type GenerationErrorKind = "input" | "model";

/** What is wrong, and what to do about it. Errors of the model's calls come as the runtime throws them. */
export class GenerationError extends Error {
  override readonly name = "GenerationError";

  constructor(
    readonly kind: GenerationErrorKind,
    /** What is wrong, without a full stop. */
    readonly sentence: string,
    /** What to do about it. */
    readonly fix: string,
  ) {
    super(`${sentence}: ${fix}`);
  }
}

/** Of what was asked for. */
export function refused(sentence: string, fix: string): GenerationError {
  return new GenerationError("input", sentence, fix);
}
