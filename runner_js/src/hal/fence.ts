import type { ErrorReport } from "../protocol/messages";
import type { Gpu, Watchdog } from "./gpu";

interface Submission {
  culprit: () => Partial<ErrorReport>;
  ended: boolean;
}

/**
 * What was submitted and has not ended yet, in order. The first of it is what runs now: when it does not end, it is to
 * blame.
 */
export class Fence {
  private readonly submissions: Submission[] = [];
  private lastSign = performance.now();
  private watching = false;

  constructor(private readonly gpu: Gpu) {
    gpu.running = () => this.culprit;
  }

  /** Follow what was just submitted. Nothing waits for it one by one: in Firefox each wait costs 80 ms. */
  submitted(culprit: () => Partial<ErrorReport>): Promise<void> {
    const submission = { culprit, ended: false };
    if (!this.submissions.length) this.lastSign = performance.now();
    this.submissions.push(submission);
    return this.gpu.device.queue.onSubmittedWorkDone().then(
      () => this.ended(submission),
      () => this.ended(submission),
    );
  }

  /** A watchdog over what is under way: each end of a submission renews it. */
  watchdog(seconds: number): Watchdog {
    return { seconds, culprit: () => this.culprit, lastSign: () => this.lastSign };
  }

  /** What runs now is to blame, where the device is lost. */
  get culprit(): Partial<ErrorReport> {
    return this.submissions[0]?.culprit() ?? {};
  }

  /** Watch work that nobody waits for: the loss is told with the next call. */
  watch(seconds: number): void {
    if (this.watching || !this.submissions.length) return;
    this.watching = true;
    const idle = this.gpu.device.queue.onSubmittedWorkDone();
    const signal = new AbortController().signal;
    void this.gpu
      .guard(idle, signal, this.watchdog(seconds))
      .catch(() => {})
      .finally(() => {
        this.watching = false;
      });
  }

  private ended(submission: Submission): void {
    submission.ended = true;
    this.lastSign = performance.now();
    while (this.submissions[0]?.ended) this.submissions.shift();
  }
}
