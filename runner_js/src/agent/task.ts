/** A version of a task on this device: its turns, its VM, and when a VM that failed is started again. */
import type { FailureKind, Task, TaskConfiguration, TaskFailure, TaskRun } from "./api";
import type { Outcome, Vm } from "./vm";

const MOST_WAITING = 100;
/** Milliseconds before the second start of a VM; each further one waits twice as long. */
const FIRST_WAIT = 1000;
const LONGEST_WAIT = 300_000;

export interface Surroundings {
  /** A VM with the task in it. */
  start(): Promise<Vm>;
  ran(run: TaskRun): void;
  failed(failure: TaskFailure): void;
  now(): number;
}

export class HeldTask implements Task {
  private vm: Vm | null = null;
  private turn: Promise<unknown> = Promise.resolve();
  private waiting = 0;
  private failures = 0;
  /** No VM is started before. */
  private notBefore = 0;
  private timer: ReturnType<typeof setInterval> | null = null;
  private closed = false;

  constructor(
    readonly name: string,
    readonly version: string,
    readonly configuration: TaskConfiguration,
    private readonly around: Surroundings,
  ) {}

  /** Its schedule begins. */
  begin(): void {
    const every = this.configuration.schedule?.every_seconds;
    if (every === undefined) return;
    let runs = 0;
    this.timer = setInterval(() => {
      // Of a task that is slower than its schedule turns do not pile up.
      if (this.waiting === 0) void this.start({ schedule: ++runs });
    }, 1000 * every);
  }

  start(event: unknown): Promise<TaskRun> {
    if (this.waiting >= MOST_WAITING)
      return Promise.resolve(this.ended(this.refusal("queue", `${MOST_WAITING} events of it wait already`)));
    let text: string | undefined;
    try {
      text = JSON.stringify(event ?? null);
    } catch {}
    if (text === undefined) return Promise.resolve(this.ended(this.refusal("queue", "an event is not JSON")));
    this.waiting++;
    const run = this.turn.then(async () => {
      const found = await this.run(text);
      this.waiting--;
      return this.ended(found);
    });
    this.turn = run;
    return run;
  }

  close(): void {
    this.closed = true;
    if (this.timer !== null) clearInterval(this.timer);
    this.vm?.stop("the task was removed");
    this.vm = null;
  }

  private async run(event: string): Promise<TaskRun> {
    if (this.closed) return this.refusal("start", "the task was removed");
    const wait = this.notBefore - this.around.now();
    if (wait > 0) {
      const seconds = Math.ceil(wait / 1000);
      return this.refusal(
        "start",
        `its VM failed ${this.failures} times, and is started again in ${seconds} s`,
      );
    }
    let vm: Vm;
    try {
      this.vm ??= await this.around.start();
      vm = this.vm;
    } catch (cause) {
      this.backOff();
      return this.refusal("start", cause instanceof Error ? cause.message : String(cause));
    }
    if (this.closed) {
      vm.stop("the task was removed");
      return this.refusal("start", "the task was removed");
    }
    const found = await vm.run(event, this.configuration.needs.seconds);
    if (vm.broken !== null) {
      this.vm = null;
      this.backOff();
    } else if (found.kind === "result") this.failures = 0;
    return this.told(found);
  }

  private backOff(): void {
    this.notBefore = this.around.now() + Math.min(FIRST_WAIT * 2 ** this.failures, LONGEST_WAIT);
    this.failures++;
  }

  private told({ kind, result, message, ms }: Outcome): TaskRun {
    const { name: task, version } = this;
    if (kind === "result") return { task, version, failed: false, ms, result, failure: null };
    return { ...this.refusal(kind, message), ms };
  }

  private refusal(kind: FailureKind, message: string): TaskRun {
    const { name: task, version } = this;
    const failure = { task, version, kind, message, at: Date.now() };
    return { task, version, failed: true, ms: 0, result: null, failure };
  }

  private ended(run: TaskRun): TaskRun {
    if (run.failure !== null) this.around.failed(run.failure);
    this.around.ran(run);
    return run;
  }
}
