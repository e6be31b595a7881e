/**
 * Work that goes side by side, and work that is done alone: a text whose states made room for others is computed again by
 * several calls, between which nobody may take them again. Each gets on so, however little memory there is.
 */
export class Gate {
  #alone: Promise<unknown> | null = null;
  readonly #beside = new Set<Promise<unknown>>();

  async beside<T>(work: () => Promise<T>): Promise<T> {
    // What follows is of the same turn as the last look.
    while (this.#alone) await this.#alone.catch(() => {});
    const running = work();
    this.#beside.add(running);
    try {
      return await running;
    } finally {
      this.#beside.delete(running);
    }
  }

  /** Not inside of other work of the gate: it would wait for itself. */
  async alone<T>(work: () => Promise<T>): Promise<T> {
    while (this.#alone) await this.#alone.catch(() => {});
    const running = Promise.allSettled(this.#beside).then(work);
    this.#alone = running;
    try {
      return await running;
    } finally {
      this.#alone = null;
    }
  }
}
