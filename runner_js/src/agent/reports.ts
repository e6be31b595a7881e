/** What the agent tells the service by itself: how runs of tasks ended, and what was sampled. */
import type { TaskRun } from "./api";
import type { Offer } from "./documents";
import { AgentError } from "./error";
import type { Source } from "./pull";

/** Milliseconds between two reports of a task that did the same. */
const REPORT = 10_000;

/**
 * Of Python's traceback the exception's type and the task's line, "ValueError at main.py:12"; empty where it has none.
 * What the exception says may be the user's, and stays on the device.
 */
export function placeOf(traceback: string): string {
  const [head, ...lines] = traceback.split("\n");
  if (head !== "Traceback (most recent call last):") return "";
  // Frames are indented. The first line that is not names the type, and what comes after that is the exception's text.
  const end = lines.findIndex((line) => !line.startsWith("  "));
  const type = /^[A-Za-z_][A-Za-z0-9_.]{0,63}(?=:|$)/.exec(lines[end] ?? "")?.[0];
  const frames = lines.slice(0, Math.max(end, 0));
  const place = frames
    .map((line) => /^ {2}File "\/task\/([A-Za-z0-9_./+@-]{1,100})", line (\d{1,6}),/.exec(line))
    .findLast((found) => found !== null);
  return type === undefined || !place ? "" : `${type} at ${place[1]}:${place[2]}`;
}

/**
 * What of a version kept it from being installed, in a word for the service; null where that says nothing of the
 * version: the service cannot be reached or is busy, or the page's own function threw.
 */
function wrongWith(cause: unknown, whole: boolean): "task.json" | "untrusted" | "missing" | null {
  if (!(cause instanceof AgentError)) return null;
  if (whole) return "task.json";
  return cause.kind === "untrusted" ? cause.kind : cause.status === 404 ? "missing" : null;
}

export class Reports {
  private readonly reported = new Map<string, { at: number; failed: boolean }>();
  /** Manifests. */
  private readonly refused = new Set<string>();

  constructor(
    private readonly source: Source,
    private readonly profile: () => string,
  ) {}

  /** A run that tells nothing new is not reported, and of a sampled one not how long it took. Never rejects. */
  async report({ task, version, failed, ms, failure }: TaskRun, sampled: boolean): Promise<void> {
    const name = `${task} ${version}`;
    const [last, at] = [this.reported.get(name), performance.now()];
    if (last !== undefined && at - last.at < REPORT && (last.failed || !failed)) return;
    this.reported.set(name, { at, failed });
    const why = failure && { failure: { kind: failure.kind, what: placeOf(failure.message) } };
    await this.told({ task, version, failed, ms: failed || sampled ? null : ms, ...why });
  }

  /** A version that cannot be installed, once for each page load. `whole`: all files of it came. Never rejects. */
  async notInstalled({ task, version, manifest }: Offer, whole: boolean, cause: unknown): Promise<void> {
    const what = wrongWith(cause, whole);
    if (what === null || this.refused.has(manifest)) return;
    this.refused.add(manifest);
    const told = await this.told({ task, version, failed: true, ms: null, failure: { kind: "pull", what } });
    if (!told) this.refused.delete(manifest); // and again with the next pull
  }

  /** Whether the service keeps it. Rejects where it cannot be reached, or refuses it. */
  async sample(task: string, version: string, file: Blob): Promise<boolean> {
    const path = `samples?${new URLSearchParams({ task, version })}`;
    const answer = await this.post(path, file, {});
    if (!answer.ok)
      throw new AgentError("service", `${path} answers ${answer.status}`, "look at the service's log");
    return ((await answer.json()) as { counted?: unknown }).counted === true;
  }

  /** Whether the service has it. */
  private async told(report: object): Promise<boolean> {
    const type = { "Content-Type": "application/json" };
    return await this.post("reports", JSON.stringify(report), type).then(
      ({ ok }) => ok,
      () => false,
    );
  }

  private async post(path: string, body: BodyInit, more: Record<string, string>): Promise<Response> {
    const headers = { "Tapml-Profile": this.profile(), ...more };
    const init: RequestInit = { method: "POST", headers, body, credentials: "omit" };
    return await this.source.fetch(this.source.service + path, init);
  }
}
