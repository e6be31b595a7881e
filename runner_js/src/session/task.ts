import type { Call, Progress } from "../protocol/messages";
import type { Task } from "./view";

const COUNTED: Record<string, number> = { pass: 0, fail: 0, error: 0, unsupported: 0 };

/** Follows one call for the page: what is under way, how far, and how it ended. */
export class TaskFollower {
  readonly task: Task;
  private readonly counts = { ...COUNTED };

  constructor(private readonly call: Call) {
    this.task = { title: titleOf(call), detail: "", done: 0, total: 0 };
  }

  progress(progress: Progress["progress"]): void {
    if (progress.kind === "alive") {
      this.task.detail = progress.doing;
      return;
    }
    if (progress.kind === "token") {
      this.task.done++;
      this.task.total = this.call.method === "generate" ? this.call.params.tokens : 0;
      this.task.detail = `a token for position ${progress.position}`;
      return;
    }
    if (progress.kind === "compiling") {
      this.task.detail = `compiling ${progress.kernel}`;
      return;
    }
    if (progress.kind === "compile") {
      this.task.detail = `compiled ${progress.kernel} (${progress.done} of ${progress.total})`;
      return;
    }
    this.counts[progress.verdict] = (this.counts[progress.verdict] ?? 0) + 1;
    this.task.done++;
    this.task.total = this.call.method === "validate" ? this.call.params.tests.length : 0;
    this.task.detail = `${progress.id} ${progress.kernel}: ${progress.verdict}`;
  }

  /** Calls of single operators come by the thousand. */
  get worthLogging(): boolean {
    return this.call.method !== "execute";
  }

  /** "Validating 137 tests: 136 pass, 1 fail" */
  summary(): string {
    const counts = Object.entries(this.counts).filter(([, count]) => count > 0);
    const ending = counts.map(([verdict, count]) => `${count} ${verdict}`).join(", ");
    return ending ? `${this.task.title}: ${ending}` : this.task.title;
  }
}

function titleOf(call: Call): string {
  switch (call.method) {
    case "validate":
      return `Validating ${counted(call.params.tests.length, "test")}`;
    case "execute": {
      const calls = call.params.commands.filter((command) => command.op === "call").length;
      return calls ? `Running ${counted(calls, "operator")}` : "Moving tensors";
    }
    case "run_model":
      return "Running the whole model";
    case "run_compiled":
      return "Running a compiled model";
    case "generate":
      return "Writing a text";
    case "ping":
      return "Answering";
  }
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}
