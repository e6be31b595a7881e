/** What went wrong, for a program to decide by: docs/runtime.md says of each when it comes. */
export type Kind =
  | "no-webgpu"
  | "unsupported"
  | "not-a-model"
  | "download"
  | "memory"
  | "input"
  | "size"
  | "unvalidated"
  | "program"
  | "state"
  | "compile"
  | "gpu"
  | "device-lost"
  | "disposed";

/** Every error of the runtime but an abort, which rejects with its signal's reason. `message` is both sentences. */
export class TapmlError extends Error {
  override name = "TapmlError";

  constructor(
    readonly kind: Kind,
    /** What is wrong, without a full stop. */
    readonly sentence: string,
    /** What to do about it. */
    readonly fix: string,
    options?: ErrorOptions,
  ) {
    super(`${sentence}: ${fix}`, options);
  }
}
