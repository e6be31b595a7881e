/** What the field's service tells of itself (tapml.field-console/1), and how it is grouped. No I/O. */

export interface Release {
  number: number;
  task: string;
  version: string;
  manifest: string;
  status: "running" | "rolled-back";
  reason: string;
  /** What it waits for that a service has to be told to do; empty where there is nothing. */
  waits: string;
  step: number;
  steps: string[];
  since: number;
  devices: number;
  failed: number;
  slow: number;
  thresholds: { failure_rate: number; slow_ms: number | null; slow_rate: number };
  /** Of the steps in which something was reported, in order. */
  rates: StepRates[];
  samples: { judged: number; calls: number; failed: number; waiting: number };
  events: { at: number; step: number; status: string; reason: string }[];
  /** Milliseconds since 1970, and the devices that held the version from then on. */
  coverage: [number, number][];
}

/** What devices reported in a step, each by its first run there. */
export interface StepRates {
  step: number;
  devices: number;
  failed: number;
  slow: number;
  /** Of runs that did not fail, in milliseconds. */
  times: { devices: number; p50: number; p95: number } | null;
}

export interface Device {
  device: string;
  at: number;
  app: string;
  browser: string;
  gpu: string;
  holds: Record<string, string>;
}

export interface Failure {
  kernel: string;
  variant: string;
  node: string;
  browser: string;
  gpu: string;
  message: string;
  link: string;
  at: number;
  task: string;
  version: string;
  device: string;
}

/** Of the service; answers, reports and bytes are counted since its start. */
export interface Traffic {
  redis: "none" | "connected" | "away";
  processes: number;
  answers: number;
  reports: number;
  /** Of the tunnel, open now. */
  connections: number;
  /** That came through the tunnel. */
  bytes: number;
  /** Different ones that asked today; null where it is not counted. */
  devices: number | null;
  streams: number;
  records: number;
  emitted: {
    task: string;
    version: string;
    name: string;
    records: number;
    devices: number;
    latest: number;
  }[];
}

/** Runs of a version that failed alike, each device once in a step. */
export interface FailedRuns {
  task: string;
  version: string;
  release: number;
  kind: string;
  /** "ValueError at main.py:12"; empty where that is not known. */
  what: string;
  browser: string;
  gpu: string;
  devices: number;
  latest: number;
}

export interface FieldDocument {
  now: number;
  /** Of devices, those that are watched: reports and devices are theirs, coverage is estimated from them. */
  share: number;
  releases: Release[];
  devices: Device[];
  failures: Failure[];
  failed_runs: FailedRuns[];
  traffic: Traffic;
}

export interface FailureGroup {
  key: string;
  kernel: string;
  browser: string;
  gpu: string;
  devices: number;
  /** The newest first. */
  failures: Failure[];
}

/** Failures of one kernel in one browser on one GPU; those on most devices come first. */
export function failureGroups(failures: readonly Failure[]): FailureGroup[] {
  const found = new Map<string, Failure[]>();
  for (const one of failures) {
    const key = JSON.stringify([one.kernel, one.browser, one.gpu]);
    found.set(key, [...(found.get(key) ?? []), one]);
  }
  return [...found]
    .map(([key, ones]) => {
      const { kernel, browser, gpu } = ones[0] as Failure;
      const devices = new Set(ones.map(({ device }) => device)).size;
      return { key, kernel, browser, gpu, devices, failures: ones };
    })
    .sort((one, other) => other.devices - one.devices || one.kernel.localeCompare(other.kernel));
}

export interface TaskVersions {
  task: string;
  /** Of each version its newest release, and the devices that said last that they hold it. */
  versions: { release: Release; holding: number }[];
}

/** By task, its versions that were released. `releases`: the newest first. */
export function taskVersions(releases: readonly Release[], devices: readonly Device[]): TaskVersions[] {
  const found = new Map<string, Map<string, Release>>();
  for (const release of releases) {
    const versions = found.get(release.task) ?? new Map<string, Release>();
    if (!versions.has(release.version)) versions.set(release.version, release);
    found.set(release.task, versions);
  }
  return [...found].map(([task, versions]) => ({
    task,
    versions: [...versions.values()].map((release) => ({
      release,
      holding: devices.filter(({ holds }) => holds[task] === release.version).length,
    })),
  }));
}

/** Whose numbers these are. */
export function counted({ redis, processes }: Traffic): string {
  if (redis === "connected") return processes === 1 ? "Of one process" : `Of ${processes} processes together`;
  return redis === "away" ? "Redis is away: of this process alone" : "Of this process";
}

/** "gray 35%", or what became of it. */
export function stateOf(release: Release): string {
  const step = release.steps[release.step] ?? "";
  return release.status === "rolled-back" ? `rolled back in ${step}` : step;
}

/**
 * Whether a release has nothing more to tell: it is rolled back, or everybody has a newer one of its task. `releases`: the
 * newest first; that is never over, for it is what one comes to look at.
 */
export function isOver(release: Release, releases: readonly Release[]): boolean {
  if (release === releases[0]) return false;
  const everybodyHas = ({ task, number, status, step, steps }: Release) =>
    task === release.task && number > release.number && status === "running" && steps[step] === "full";
  return release.status === "rolled-back" || releases.some(everybodyHas);
}

/** "3 (1.5%)" */
export function share(count: number, of: number): string {
  return count === 0 || of === 0
    ? String(count)
    : `${count} (${Number(((100 * count) / of).toPrecision(2))}%)`;
}

/** "44 ms", "1.2 s" */
export function took(milliseconds: number): string {
  return milliseconds < 1000 ? `${milliseconds} ms` : `${Number((milliseconds / 1000).toPrecision(3))} s`;
}

/** What rolls the release back. */
export function limitsOf({ thresholds }: Release): string {
  const { failure_rate, slow_ms, slow_rate } = thresholds;
  const percent = (rate: number) => `${Number((100 * rate).toPrecision(3))}%`;
  const or = slow_ms === null ? "" : `, or take over ${took(slow_ms)} on more than ${percent(slow_rate)}`;
  return `It is rolled back when there is evidence that runs fail on more than ${percent(failure_rate)} of the devices${or}.`;
}

/** A line that keeps each value until the next, in a box of this size, up to `end`. */
export function stepLine(
  points: Release["coverage"],
  end: number,
  most: number,
  width: number,
  height: number,
): string {
  const first = points[0]?.[0] ?? end;
  const span = Math.max(end - first, 1);
  const x = (at: number) => (((Math.min(at, end) - first) / span) * width).toFixed(1);
  const y = (devices: number) => (height - (devices / Math.max(most, 1)) * height).toFixed(1);
  const last = points.at(-1);
  const turns = points.map(([at, devices], i) => (i ? `H${x(at)}V${y(devices)}` : `M${x(at)},${y(devices)}`));
  return last ? `${turns.join("")}H${x(end)}` : "";
}

/**
 * In which row each label stands, the first of `rows` where it covers none before it; null where there is no room. `spans`:
 * from where to where it goes, in order; one that would go beyond `width` stands before its line instead.
 */
export function labelRows(
  spans: readonly (readonly [number, number])[],
  rows: number,
  width: number,
): (number | null)[] {
  const taken = Array.from({ length: rows }, () => Number.NEGATIVE_INFINITY);
  return spans.map(([from, to]) => {
    const start = to > width ? from - (to - from) : from;
    const row = taken.findIndex((end) => end < start);
    if (row < 0) return null;
    taken[row] = Math.max(from, to > width ? from : to);
    return row;
  });
}

/** "95 s", "12 min", "5 h", "3 days" */
export function elapsed(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} days`;
}

/** 12 s ago, 4 min ago: how long before `now`. */
export function ago(at: number, now: number): string {
  return `${elapsed(now - at)} ago`;
}
