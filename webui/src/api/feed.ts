/**
 * The events of one suite's jobs, each exactly once and in order, whichever way they come.
 *
 * The socket is quick but may be missing, late or broken in the middle; HTTP knows every event from number 0 on.
 * So: an event that continues the sequence is delivered at once; a gap, an unknown job or a
 * missing socket is healed by asking over HTTP.
 */

import { asError } from "./client";
import type { Job, JobEvent, JobMessage } from "./types";

export interface FeedHandlers {
  /** Another job than before: forget the last one. */
  job(job: string): void;
  events(events: JobEvent[]): void;
  /** The job has ended; `job` carries the document. */
  ended(job: Job): void;
  /** A failed look-up. The feed goes on trying, unless the server no longer knows the job (`gone`). */
  problem(error: Error, gone: boolean): void;
}

export interface FeedOptions {
  suite: string;
  fetchJob(job: string, after: number): Promise<Job>;
  pollEvery: number;
}

export class JobFeed {
  private job: string | null = null;
  private next = 0;
  private running = false;
  private connected = false;
  private asking = false;
  private askAgain = false;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private closed = false;

  constructor(
    private readonly options: FeedOptions,
    private readonly handlers: FeedHandlers,
  ) {}

  /** Follow this job from its first event on. */
  follow(job: string): void {
    if (this.job === job) return;
    this.job = job;
    this.next = 0;
    this.running = true;
    this.handlers.job(job);
    this.ask();
  }

  receive(message: JobMessage): void {
    if (message.suite !== this.options.suite) return;
    if (message.job !== this.job) {
      // Started elsewhere: another tab, the command line. An old job's last words do not displace a running one.
      if (!this.running) this.follow(message.job);
      return;
    }
    if (message.number !== this.next || this.asking) {
      if (message.number >= this.next) this.ask();
      return;
    }
    this.next += 1;
    this.handlers.events([message.event]);
    if (message.event.type === "ended") this.ask();
  }

  setConnected(connected: boolean): void {
    this.connected = connected;
    if (this.running) this.ask();
  }

  close(): void {
    this.closed = true;
    if (this.timer !== null) clearTimeout(this.timer);
  }

  private ask(): void {
    if (this.asking) {
      this.askAgain = true;
      return;
    }
    if (this.job === null || this.closed) return;
    this.asking = true;
    this.askAgain = false;
    const job = this.job;
    this.options
      .fetchJob(job, this.next)
      .then(
        (answer) => this.take(job, answer),
        (error: unknown) => this.fail(job, error),
      )
      .finally(() => {
        this.asking = false;
        if (this.askAgain) this.ask();
        else this.schedule();
      });
  }

  private take(job: string, answer: Job): void {
    if (this.closed || job !== this.job) return;
    // `next` is the server's count, so this holds whether it numbers from 0 or from 1.
    const first = answer.next - answer.events.length;
    const fresh = answer.events.slice(Math.max(0, this.next - first));
    this.next = answer.next;
    if (fresh.length > 0) this.handlers.events(fresh);
    if (answer.state === "running" || !this.running) return;
    // An answer holds a limited number of events, and the state may change just before the last one is there:
    // the end is reached when "ended" was read, or nothing is left to read.
    if (answer.events.length > 0 && answer.events.at(-1)?.type !== "ended") {
      this.askAgain = true;
      return;
    }
    this.running = false;
    this.handlers.ended(answer);
  }

  private fail(job: string, error: unknown): void {
    if (this.closed || job !== this.job) return;
    const gone = typeof error === "object" && error !== null && "status" in error && error.status === 404;
    if (gone) {
      // The server was started anew and no longer knows the job.
      this.running = false;
      this.job = null;
    }
    this.handlers.problem(asError(error), gone);
  }

  private schedule(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    if (!this.running || this.closed) return;
    // With a socket this is only a safety net against lost messages.
    const wait = this.connected ? this.options.pollEvery * 10 : this.options.pollEvery;
    this.timer = setTimeout(() => this.ask(), wait);
  }
}
