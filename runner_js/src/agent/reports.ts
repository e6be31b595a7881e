/** What the agent tells the service by itself: how runs of tasks ended, and what was sampled. */
import type { TaskRun } from "./api";
import { AgentError } from "./error";
import type { Source } from "./pull";

/** Milliseconds between two reports of a task that did the same. */
const REPORT = 10_000;

export class Reports {
  private readonly reported = new Map<string, { at: number; failed: boolean }>();

  constructor(
    private readonly source: Source,
    private readonly profile: () => string,
  ) {}

  /** A run that tells nothing new is not reported, and of a sampled one not how long it took. Never rejects. */
  async report({ task, version, failed, ms }: TaskRun, sampled: boolean): Promise<void> {
    const name = `${task} ${version}`;
    const [last, at] = [this.reported.get(name), performance.now()];
    if (last !== undefined && at - last.at < REPORT && (last.failed || !failed)) return;
    this.reported.set(name, { at, failed });
    const body = JSON.stringify({ task, version, failed, ms: failed || sampled ? null : ms });
    await this.post("reports", body, { "Content-Type": "application/json" }).catch(() => {});
  }

  /** Whether the service keeps it. Rejects where it cannot be reached, or refuses it. */
  async sample(task: string, version: string, file: Blob): Promise<boolean> {
    const path = `samples?${new URLSearchParams({ task, version })}`;
    const answer = await this.post(path, file, {});
    if (!answer.ok)
      throw new AgentError("service", `${path} answers ${answer.status}`, "look at the service's log");
    return ((await answer.json()) as { counted?: unknown }).counted === true;
  }

  private async post(path: string, body: BodyInit, more: Record<string, string>): Promise<Response> {
    const headers = { "Tapml-Profile": this.profile(), ...more };
    const init: RequestInit = { method: "POST", headers, body, credentials: "omit" };
    return await this.source.fetch(this.source.service + path, init);
  }
}
