/** The history of a suite's tests: the words of docs/http-api.md. */

import type { Verdict } from "./documents";

/** A run, and the version of the device in it. */
export interface Moment {
  run: string;
  /** Milliseconds since 1970. */
  at: number;
  created: string;
  device: string;
}

export interface Times {
  median: number | null;
  last: number | null;
}

/** A test on one sort of device. */
export interface Trend {
  test: string;
  kernel: string;
  device: string;
  gpu: string;
  state: "passing" | "failing" | "unsupported";
  runs: number;
  last: Moment & { verdict: Verdict };
  since: Moment & { kernel_changed: boolean; device_changed: boolean };
  /** It fails now and passed before. */
  new_failure: boolean;
  first_failing: Moment | null;
  first_passing: Moment | null;
  flaky_runs: number;
  flaky_rate: number;
  seconds: Times;
  gpu_seconds: Times;
  versions: ({ device: string; adapter: string; runs: number; seconds: number | null } & Record<
    Verdict,
    number
  >)[];
}

export interface HistoryPoint extends Moment {
  verdict: Verdict;
  flaky: boolean;
  attempts: string[];
  max_abs_error: number | null;
  max_ulp: number | null;
  mismatched: number;
  total: number;
  variant: string | null;
  message: string;
  seconds: number | null;
  gpu_seconds: number | null;
  kernel_changed: boolean;
  device_changed: boolean;
}

export interface DeviceHistory {
  device: string;
  gpu: string;
  trend: Trend;
  /** Newest last. */
  points: HistoryPoint[];
}

export interface SuiteHistory {
  runs: number;
  trends: Trend[];
}

export interface TestHistory {
  test: string;
  kernel: string;
  devices: DeviceHistory[];
}
