/**
 * `input`: what the page asked for cannot be; `service`: it cannot be reached, or answers nothing that can be read;
 * `untrusted`: what came is not what the page's key signed; `vm`: the Python VM cannot be started.
 */
export type AgentErrorKind = "input" | "service" | "untrusted" | "vm";

/** What is wrong, and what to do about it. */
export class AgentError extends Error {
  override readonly name = "AgentError";

  constructor(
    readonly kind: AgentErrorKind,
    /** What is wrong, without a full stop. */
    readonly sentence: string,
    /** What to do about it. */
    readonly fix: string,
    /** What the service answered, where that is what is wrong. */
    readonly status: number | null = null,
  ) {
    super(`${sentence}: ${fix}`);
  }
}
