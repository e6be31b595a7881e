/**
 * Everything known about one suite's results: the documents on disk, and what a running job has said since.
 * A reducer without I/O; pages render from it.
 */

import type {
  DeviceDocument,
  LocateDocument,
  OffloadDocument,
  OffloadFinal,
  OffloadStep,
  TestResult,
} from "../api/generated/results";
import type { Job, JobEnd, JobEvent, JobKind, Results } from "../api/types";
import { asState, type Counts, isProblem, noCounts } from "./verdicts";

export interface OffloadRun {
  created: string | null;
  steps: OffloadStep[];
  total: number;
  final: OffloadFinal | null;
  tolerance: OffloadDocument["model_tolerance"] | null;
}

export interface JobState {
  job: string;
  kind: JobKind | null;
  state: "running" | JobEnd;
  total: number;
  done: number;
  /** Of the tests done. */
  counts: Counts;
  /** Kernels asked for; null for all, undefined when another page started the job. */
  kernels: string[] | null | undefined;
  devices: string[];
  /** Which kernel each device compiles now. */
  compiling: Record<string, { kernel: string; done: number; total: number }>;
  /** Kernels with a test that failed in this job, in the order of their first. */
  failing: string[];
  /** What a search for faulty kernels does after the tests. */
  phase: { text: string; done: number; total: number } | null;
  messages: { level: "info" | "warning" | "error"; text: string }[];
  error: string | null;
}

export interface ResultsState {
  /** Columns of the matrix, in order. */
  devices: DeviceDocument[];
  /** device id -> test id -> result */
  verdicts: Record<string, Record<string, TestResult>>;
  /** When a device's saved validation was made; absent for a live one. */
  created: Record<string, string>;
  /** Device id -> kernels that were edited since its verdicts. */
  outdated: Record<string, readonly string[]>;
  offloads: Record<string, OffloadRun>;
  /** Device id -> what its last search for faulty kernels found. */
  locates: Record<string, LocateDocument>;
  /** Saved results that could not be read, a sentence each. */
  problems: string[];
  job: JobState | null;
  /** Job ids and the kernels they were started with, so that a feed's `job` can be matched. */
  asked: Record<string, string[] | null>;
}

export const EMPTY: ResultsState = {
  devices: [],
  verdicts: {},
  created: {},
  outdated: {},
  offloads: {},
  locates: {},
  problems: [],
  job: null,
  asked: {},
};

export type Action =
  | { type: "saved"; results: Results }
  | { type: "asked"; job: string; kernels: string[] | null }
  | { type: "job"; job: string }
  | { type: "events"; events: JobEvent[] }
  | { type: "ended"; job: Job }
  | { type: "gone" };

export function reduce(state: ResultsState, action: Action): ResultsState {
  switch (action.type) {
    case "saved":
      return withSaved(state, action.results);
    case "asked":
      return { ...state, asked: { ...state.asked, [action.job]: action.kernels } };
    case "job":
      return { ...state, job: newJob(action.job, state.asked[action.job]) };
    case "events":
      return action.events.reduce(withEvent, state);
    case "ended":
      return withEnd(state, action.job);
    case "gone":
      return state.job?.state === "running"
        ? { ...state, job: { ...state.job, state: "failed", error: "The server no longer knows this job." } }
        : state;
  }
}

function newJob(job: string, kernels: string[] | null | undefined): JobState {
  return {
    job,
    kind: null,
    state: "running",
    total: 0,
    done: 0,
    counts: noCounts(),
    kernels,
    devices: [],
    compiling: {},
    failing: [],
    phase: null,
    messages: [],
    error: null,
  };
}

function withSaved(state: ResultsState, results: Results): ResultsState {
  let next: ResultsState = { ...state, problems: results.problems };
  for (const document of results.validations) {
    for (const device of document.devices) {
      // A running job knows better than yesterday's document.
      if (next.job?.devices.includes(device.id)) continue;
      next = withDevice(next, device);
      const tests = document.tests.filter((test) => test.device === device.id);
      next = {
        ...next,
        verdicts: { ...next.verdicts, [device.id]: Object.fromEntries(tests.map((test) => [test.id, test])) },
        created: { ...next.created, [device.id]: document.created },
        outdated: { ...next.outdated, [device.id]: results.outdated[device.id] ?? [] },
      };
    }
  }
  for (const document of results.offloads) next = withOffload(next, document);
  for (const document of results.locates) next = withLocate(next, document);
  return next;
}

function withLocate(state: ResultsState, document: LocateDocument): ResultsState {
  const device = document.devices[0];
  if (device === undefined) return state;
  return { ...withDevice(state, device), locates: { ...state.locates, [device.id]: document } };
}

function withOffload(state: ResultsState, document: OffloadDocument): ResultsState {
  const device = document.devices[0];
  if (device === undefined) return state;
  const { created, steps, final, model_tolerance: tolerance } = document;
  const run: OffloadRun = { created, steps, total: steps.length, final, tolerance };
  return { ...withDevice(state, device), offloads: { ...state.offloads, [device.id]: run } };
}

/** The same browser comes back with another id: its new column takes the old one's place. */
function withDevice(state: ResultsState, device: DeviceDocument): ResultsState {
  if (state.devices.some((known) => known.id === device.id)) {
    return { ...state, devices: state.devices.map((known) => (known.id === device.id ? device : known)) };
  }
  return { ...state, devices: [...state.devices, device] };
}

function looksLike(a: DeviceDocument, b: DeviceDocument): boolean {
  return (
    a.name === b.name && a.user_agent === b.user_agent && a.adapter.description === b.adapter.description
  );
}

function joined(state: ResultsState, job: JobState, device: DeviceDocument): ResultsState {
  const former = state.devices.find(
    (known) => known.id !== device.id && looksLike(known, device) && !job.devices.includes(known.id),
  );
  let next = state;
  if (former !== undefined && !state.devices.some((known) => known.id === device.id)) {
    next = {
      ...state,
      devices: state.devices.map((known) => (known === former ? device : known)),
      verdicts: renamed(state.verdicts, former.id, device.id),
      created: renamed(state.created, former.id, device.id),
      outdated: renamed(state.outdated, former.id, device.id),
      offloads: renamed(state.offloads, former.id, device.id),
      locates: renamed(state.locates, former.id, device.id),
    };
  }
  return withDevice(next, device);
}

function renamed<T>(record: Record<string, T>, from: string, to: string): Record<string, T> {
  const { [from]: value, ...rest } = record;
  return value === undefined ? rest : { ...rest, [to]: value };
}

function withEvent(state: ResultsState, event: JobEvent): ResultsState {
  const job = state.job;
  if (job === null) return state;
  const update = (changes: Partial<JobState>): ResultsState => ({ ...state, job: { ...job, ...changes } });
  switch (event.type) {
    case "started":
      return update({
        kind: event.kind,
        total: event.total,
        kernels: job.kernels === undefined ? event.kernels : job.kernels,
      });
    case "device":
      return start(joined(state, job, event.device), job, event.device.id);
    case "compile": {
      const { kernel, done, total } = event;
      return update({ compiling: { ...job.compiling, [event.device]: { kernel, done, total } } });
    }
    case "verdict": {
      const { [event.device]: _, ...compiling } = job.compiling;
      const tests = { ...state.verdicts[event.device], [event.result.id]: event.result };
      const verdict = asState(event.result.verdict);
      const counts = { ...job.counts, [verdict]: job.counts[verdict] + 1 };
      // An offload tests the operators first; what it counts are kernels moved.
      const done = job.kind === "offload" ? job.done : job.done + 1;
      const { kernel } = event.result;
      const failing =
        isProblem(verdict) && !job.failing.includes(kernel) ? [...job.failing, kernel] : job.failing;
      const next = update({ done, counts, compiling, failing });
      const former = state.outdated[event.device]?.filter((name) => name !== kernel) ?? [];
      return {
        ...next,
        verdicts: { ...state.verdicts, [event.device]: tests },
        outdated: { ...state.outdated, [event.device]: former },
      };
    }
    case "step": {
      const run = state.offloads[event.device] ?? freshRun();
      const moved = { ...run, steps: [...run.steps, event.step], total: event.total };
      return {
        ...update({ done: job.done + 1, kind: "offload" }),
        offloads: { ...state.offloads, [event.device]: moved },
      };
    }
    case "final": {
      const run = state.offloads[event.device] ?? freshRun();
      return { ...state, offloads: { ...state.offloads, [event.device]: { ...run, final: event.final } } };
    }
    case "examine": {
      const { kernel, number, total } = event;
      return update({ phase: { text: `runs tests again: ${kernel}`, done: number, total } });
    }
    case "model":
      // How many runs the search takes is not known before.
      return update({ phase: { text: `${event.text} (run ${event.runs})`, done: 0, total: 0 } });
    case "message":
      return update({ messages: [...job.messages, { level: event.level, text: event.text }] });
    case "ended":
      return update({ state: event.state, error: event.error, compiling: {} });
    default:
      // An event of a newer server: nothing to show, nothing to break.
      return state;
  }
}

function freshRun(): OffloadRun {
  return { created: null, steps: [], total: 0, final: null, tolerance: null };
}

/** A device joined: its earlier results in this job's range are forgotten, so that the cells show as waiting. */
function start(state: ResultsState, job: JobState, device: string): ResultsState {
  const devices = job.devices.includes(device) ? job.devices : [...job.devices, device];
  const next = { ...state, job: { ...job, devices } };
  if (job.kind === "offload") {
    return { ...next, offloads: { ...state.offloads, [device]: { ...freshRun(), total: job.total } } };
  }
  if (job.kind === "locate") {
    // Its verdicts are news to the operators' table, but do not empty it.
    const { [device]: _, ...locates } = state.locates;
    return { ...next, locates };
  }
  const { [device]: _, ...created } = state.created;
  const kept = Object.entries(state.verdicts[device] ?? {}).filter(([, test]) => !inRange(job, test.kernel));
  return { ...next, created, verdicts: { ...state.verdicts, [device]: Object.fromEntries(kept) } };
}

/** Whether the job is known to run this kernel. A job started elsewhere does not say: assume nothing. */
export function inRange(job: JobState, kernel: string): boolean {
  if (job.kernels === undefined) return false;
  return job.kernels === null || job.kernels.includes(kernel);
}

function withEnd(state: ResultsState, job: Job): ResultsState {
  if (state.job === null) return state;
  const ended = job.state === "running" ? "done" : job.state;
  let next: ResultsState = {
    ...state,
    job: { ...state.job, state: ended, error: job.error ?? state.job.error, compiling: {}, phase: null },
  };
  const document = job.document;
  if (document?.format === "tapml.offload/1") next = withOffload(next, document);
  if (document?.format === "tapml.locate/1") next = withLocate(next, document);
  if (document?.format === "tapml.validation/1") {
    const created = { ...next.created };
    for (const device of document.devices) created[device.id] = document.created;
    next = { ...next, created };
  }
  return next;
}
