/** The page's side of the storage worker, which starts with the first request. */
import type { Answered, Ask, Asked, Opened } from "./messages";
import type { Found, Place } from "./types";

/** Of a worker, what is used here. */
export interface StorageWorker {
  postMessage(message: unknown): void;
  onMessage(listener: (message: unknown) => void): void;
  onError(listener: (message: string) => void): void;
  terminate(): void;
}

interface Waiting {
  resolve(value: never): void;
  reject(cause: Error): void;
}

interface Running {
  readonly worker: StorageWorker;
  readonly waiting: Map<number, Waiting>;
  readonly place: Promise<Place>;
}

export class StorageClient {
  /** Goes up when a worker was lost: whoever had a database open opens it again. */
  generation = 0;
  private running: Running | null = null;
  private asked = 0;
  private closed = false;

  constructor(
    private readonly spawn: () => StorageWorker,
    private readonly told: (place: Place) => void,
  ) {}

  ask(ask: Ask & { kind: "sql" }): Promise<Found>;
  ask(ask: Ask & { kind: "open" }): Promise<Opened>;
  ask(ask: Ask & { kind: "write" | "erase" }): Promise<null>;
  ask(ask: Ask): Promise<unknown> {
    if (this.closed) return Promise.reject(new Error("the agent is closed"));
    return this.send(this.started(), ask);
  }

  place(): Promise<Place> {
    return this.started().place;
  }

  /** What was asked before is done, and the worker ended. */
  close(): void {
    this.closed = true;
    const running = this.running;
    if (running !== null)
      this.send(running, { kind: "close" }).then(
        () => running.worker.terminate(),
        () => {},
      );
  }

  private started(): Running {
    if (this.running !== null) return this.running;
    const parts = { worker: this.spawn(), waiting: new Map<number, Waiting>() };
    const running: Running = { ...parts, place: this.send(parts, { kind: "start" }) as Promise<Place> };
    this.running = running;
    running.worker.onMessage((message) => {
      const { id, value, error } = message as Answered;
      const waiting = running.waiting.get(id);
      running.waiting.delete(id);
      if (error === null) waiting?.resolve(value as never);
      else waiting?.reject(new Error(error));
    });
    running.worker.onError((message) => {
      running.worker.terminate();
      if (this.running === running) this.running = null;
      this.generation++;
      for (const { reject } of running.waiting.values())
        reject(new Error(`the storage worker failed: ${message.slice(0, 300)}`));
      running.waiting.clear();
    });
    running.place.then(this.told, () => {});
    return running;
  }

  private send({ worker, waiting }: Pick<Running, "worker" | "waiting">, ask: Ask): Promise<unknown> {
    const id = ++this.asked;
    return new Promise((resolve, reject) => {
      waiting.set(id, { resolve, reject });
      worker.postMessage({ id, ask } satisfies Asked);
    });
  }
}
