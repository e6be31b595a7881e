import type { Commands } from "../hal/commands";
import type { Gpu } from "../hal/gpu";
import { TimestampQueries } from "../hal/queries";
import type { ExecuteParams } from "../protocol/messages";

/** GPU time of each call command, where it is asked for and the device has timestamps. */
export class CallTimer {
  private readonly sets: TimestampQueries[] = [];
  private calls = 0;

  private constructor(
    private readonly gpu: Gpu,
    private readonly total: number,
  ) {}

  static start(gpu: Gpu, { timing, commands }: ExecuteParams): CallTimer | null {
    if (!timing || !gpu.timestamps) return null;
    return new CallTimer(gpu, commands.filter((command) => command.op === "call").length);
  }

  /** The queries of the next call. */
  next(): TimestampQueries {
    if (this.calls % TimestampQueries.most === 0) {
      this.sets.push(new TimestampQueries(this.gpu.device, this.total - this.calls));
    }
    this.calls++;
    return this.sets.at(-1) as TimestampQueries;
  }

  resolve(commands: Commands): void {
    for (const set of this.sets) commands.resolve(set);
  }

  async seconds(): Promise<number[]> {
    return (await Promise.all(this.sets.map((set) => set.seconds()))).flat();
  }

  destroy(): void {
    for (const set of this.sets) set.destroy();
  }
}
