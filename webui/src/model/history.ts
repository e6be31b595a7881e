/** What the runs of a test say, in words and in places of a chart. */

import type { HistoryPoint, Moment, Trend } from "../api/generated/results";
import type { KernelNow } from "../api/types";
import { logScale } from "./charts";
import { date, error, number, percent, seconds, short } from "./format";
import { timesBound } from "./headline";
import { isOther, type Kernels } from "./older";
import { asState, OLDER, WORD } from "./verdicts";

/** "156" of "Chromium 156": what is new in a row of squares of one browser. */
export function version(device: string): string {
  return /\s(v?\d\S*)$/.exec(device)?.[1] ?? device;
}

export function moment(at: Moment): string {
  return `${date(at.created)} in ${at.device}`;
}

/** One run in a sentence, for its tooltip and for those who hear it. */
export function pointText(point: HistoryPoint, older = false): string {
  const parts = [`${date(point.created)}, ${point.device}: ${WORD[asState(point.verdict)]}`];
  if (older) parts.push(OLDER);
  if (point.attempts.length > 0) parts.push(`attempts ${point.attempts.join(", ")}`);
  if (point.flaky) parts.push("flaky");
  if (point.kernel_changed) parts.push("the kernel changed");
  if (point.mismatched > 0)
    parts.push(`${short(point.mismatched)} of ${short(point.total)} out of tolerance`);
  if (point.bound_share !== null) parts.push(timesBound(Number(point.bound_share)));
  if (point.max_abs_error !== null) parts.push(`max abs error ${error(point.max_abs_error)}`);
  if (point.gpu_seconds !== null) parts.push(`GPU time ${seconds(point.gpu_seconds)}`);
  else if (point.seconds !== null) parts.push(`${seconds(point.seconds)} (mean of its batch)`);
  return parts.join(", ");
}

/** What a trend comes to: names and values of its facts. `now`: the kernel as it is on disk, which the last run may not be of. */
export function facts(trend: Trend, now?: KernelNow): { name: string; value: string; note: string }[] {
  const { since, first_failing: failing } = trend;
  const news = [
    since.kernel_changed ? "the kernel changed there" : "",
    since.device_changed ? "another version" : "",
  ];
  const found = [
    {
      name: `${isOlder(trend.last, now) ? `${OLDER}: ` : ""}${trend.state} since`,
      value: moment(since),
      note: news.filter(Boolean).join(", "),
    },
    { name: "first seen failing", value: failing ? moment(failing) : "never", note: "" },
    {
      name: "flaky",
      value: trend.flaky_runs > 0 ? percent(trend.flaky_runs, trend.runs) : "no",
      note: trend.flaky_runs > 0 ? `${trend.flaky_runs} of ${trend.runs} runs` : "",
    },
  ];
  const onGpu = trend.gpu_seconds.median !== null;
  const { median, last } = onGpu ? trend.gpu_seconds : trend.seconds;
  if (median !== null) {
    const notes = [
      ...(last === null ? [] : [`last ${seconds(last)}`]),
      ...(onGpu ? [] : ["each the mean of its batch"]),
    ];
    const name = onGpu ? "median GPU time" : "median time";
    found.push({ name, value: seconds(median), note: notes.join(", ") });
  }
  return found;
}

/**
 * By kernel: what to know before looking at its verdicts. Nothing where all is as ever. A failure of a text that is not on
 * disk (any more) is not the kernel's.
 */
export function remarks(trends: readonly Trend[], now: Kernels): Map<string, string> {
  const said = new Map<string, Set<string>>();
  for (const trend of trends) {
    const texts = said.get(trend.kernel) ?? new Set();
    const older = isOlder(trend.last, now[trend.kernel]);
    if (trend.new_failure && !older) texts.add(`new failure: passed before ${moment(trend.since)}`);
    if (trend.flaky_runs > 0) texts.add(`flaky in ${trend.device}`);
    if (texts.size > 0) said.set(trend.kernel, texts);
  }
  return new Map([...said].map(([kernel, texts]) => [kernel, [...texts].join("; ")]));
}

/** Whether what a run says is of another text of the kernel than the one on disk; not where it does not tell its text. */
export function isOlder(run: Pick<HistoryPoint, "kernel_digest">, now: KernelNow | undefined): boolean {
  return run.kernel_digest !== "" && isOther(run.kernel_digest, now);
}

/** The last run of the text that is on disk; the last of all, which is older, where there is none. */
export function lastOfNow(points: readonly HistoryPoint[], now: KernelNow | undefined): number {
  const found = points.findLastIndex((point) => !isOlder(point, now));
  return found < 0 ? points.length - 1 : found;
}

export interface Curve {
  /** SVG path data; runs without a value leave a gap. */
  path: string;
  /** Places of runs whose neighbours have no value: a path of one point shows nothing. */
  dots: { x: number; y: number }[];
  /** Names and heights of the lines across. */
  ticks: { name: string; y: number }[];
}

/** Values in the order of runs, in a box of this size. */
export function curve(
  values: readonly (number | null)[],
  size: { width: number; height: number },
  scale: { position: (value: number) => number; ticks: { name: string; value: number }[] },
): Curve {
  const y = (value: number) => round((1 - scale.position(value)) * size.height);
  const x = (at: number) => round(((at + 0.5) / Math.max(1, values.length)) * size.width);
  const dots: Curve["dots"] = [];
  let path = "";
  values.forEach((value, at) => {
    if (value === null) return;
    const joined = (values[at - 1] ?? null) !== null;
    path += `${joined ? "L" : "M"}${x(at)} ${y(value)}`;
    if (!joined && (values[at + 1] ?? null) === null) dots.push({ x: x(at), y: y(value) });
  });
  return { path, dots, ticks: scale.ticks.map(({ name, value }) => ({ name, y: y(value) })) };
}

/** From nothing up to a little over the largest value. */
export function timeScale(values: readonly (number | null)[]) {
  const most = Math.max(1e-9, ...values.map((value) => value ?? 0));
  const step = 10 ** Math.floor(Math.log10(most));
  const top = step * ([1, 2, 5].find((factor) => factor * step >= most) ?? 10);
  const ticks = [0, top / 2, top].map((value) => ({ name: seconds(value), value }));
  return { position: (value: number) => Math.max(0, value / top), ticks };
}

export function errorScale(
  values: readonly (number | null)[],
  name: (value: number) => string = (value) => number(value, 1),
) {
  const known = values.filter((value) => value !== null);
  const scale = logScale(known);
  const zero = known.includes(0);
  const ticks = scale.ticks.map((tick, at) => ({
    name: zero && at === 0 ? "0" : name(10 ** tick),
    value: 10 ** tick,
  }));
  return { position: scale.position, ticks };
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
