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
  ValidationDocument,
} from "../api/generated/results";
import type { Job, JobEnd, JobEvent, JobKind, KernelNow, Results } from "../api/types";
import {
  restored,
  type Texts,
  withEarlier,
  withKernels,
  withKnown,
  withoutKernels,
  withResults,
} from "./texts";
import { asState, type Counts, isProblem, noCounts } from "./verdicts";

export interface OffloadRun {
  created: string | null;
  steps: OffloadStep[];
  total: number;
  final: OffloadFinal | null;
  tolerance: OffloadDocument["model_tolerance"] | null;
  /** Kernel -> digest of the text that ran; empty where a document of an earlier version does not say. */
  digests: Record<string, string>;
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
  /** Kernel -> digest of its text that the job runs, once it has told. */
  digests: Record<string, string>;
  /** Whether it runs texts that are not on disk. */
  trial: boolean;
  /** Which kernel each device compiles now. */
  compiling: Record<string, { kernel: string; done: number; total: number }>;
  /** How many kernels each device has compiled, of how many. */
  compiled: Record<string, { done: number; total: number }>;
  /** About how many seconds are left on each device. */
  left: Record<string, number>;
  /** Kernels with a test that failed in this job, in the order of their first. */
  failing: string[];
  /** What a search for faulty kernels does after the tests. */
  phase: { text: string; done: number; total: number } | null;
  messages: { level: "info" | "warning" | "error"; text: string }[];
  error: string | null;
}

export interface ResultsState extends Texts {
  /** Columns of the matrix, in order. */
  devices: DeviceDocument[];
  /** When a device's saved validation was made; absent for a live one. */
  created: Record<string, string>;
  /** Device id -> tests that its last validation did not come to, for it was cancelled. */
  partial: Record<string, number>;
  offloads: Record<string, OffloadRun>;
  /** Device id -> what its last search for faulty kernels found. */
  locates: Record<string, LocateDocument>;
  /** Saved results that could not be read, a sentence each. */
  problems: string[];
  job: JobState | null;
  /** Job ids and what they were started with, so that a feed's `job` can be matched. */
  asked: Record<string, Asked>;
  /** Kernel -> what its files say, all of them (model/tried.ts) -> the digest that it has then. */
  known: Record<string, Record<string, string>>;
}

export interface Asked {
  kernels: string[] | null;
  /** Whether texts of the page run, not those on disk. */
  trial: boolean;
  /** Of a job of one kernel: all of its texts. */
  texts?: string | undefined;
}

export const EMPTY: ResultsState = {
  devices: [],
  verdicts: {},
  created: {},
  kernels: {},
  ran: {},
  shelf: {},
  outdated: {},
  partial: {},
  offloads: {},
  locates: {},
  problems: [],
  job: null,
  asked: {},
  known: {},
};

export type Action =
  | { type: "saved"; results: Results }
  | { type: "kernels"; kernels: Record<string, KernelNow> }
  | { type: "asked"; job: string; asked: Asked }
  | { type: "known"; kernel: string; texts: string; digest: string }
  | { type: "job"; job: string }
  | { type: "events"; events: JobEvent[] }
  | { type: "ended"; job: Job }
  | { type: "gone" };

export function reduce(state: ResultsState, action: Action): ResultsState {
  switch (action.type) {
    case "saved":
      return withSaved(state, action.results);
    case "kernels":
      return withKernels(state, action.kernels);
    case "asked":
      return { ...state, asked: { ...state.asked, [action.job]: action.asked } };
    case "known":
      return withKnown(state, action.kernel, action.texts, action.digest);
    case "job":
      return { ...state, job: newJob(action.job, state.asked[action.job]) };
    case "events":
      return withEvents(state, action.events);
    case "ended":
      return withEnd(state, action.job);
    case "gone":
      return state.job?.state === "running"
        ? { ...state, job: { ...state.job, state: "failed", error: "The server no longer knows this job." } }
        : state;
  }
}

function newJob(job: string, asked: Asked | undefined): JobState {
  return {
    job,
    kind: null,
    state: "running",
    total: 0,
    done: 0,
    counts: noCounts(),
    kernels: asked?.kernels,
    devices: [],
    digests: {},
    trial: asked?.trial ?? false,
    compiling: {},
    compiled: {},
    left: {},
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
      if (!next.job?.devices.includes(device.id))
        next = withoutKernels(next, device.id, Object.keys(document.kernel_digests));
    }
  }
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
        ran: { ...next.ran, [device.id]: document.kernel_digests },
        partial: withPartial(next.partial, document, device.id),
      };
      next = withEarlier(next, device.id, document.earlier);
    }
  }
  for (const document of results.offloads) next = withOffload(next, document);
  for (const document of results.locates) next = withLocate(next, document);
  return withKernels(next, results.kernels);
}

function withPartial(
  partial: ResultsState["partial"],
  { not_run }: Pick<ValidationDocument, "not_run">,
  device: string,
): ResultsState["partial"] {
  const { [device]: _, ...others } = partial;
  const left = not_run[device]?.length ?? 0;
  return left > 0 ? { ...others, [device]: left } : others;
}

function withLocate(state: ResultsState, document: LocateDocument): ResultsState {
  const device = document.devices[0];
  if (device === undefined) return state;
  return { ...withDevice(state, device), locates: { ...state.locates, [device.id]: document } };
}

function withOffload(state: ResultsState, document: OffloadDocument): ResultsState {
  const device = document.devices[0];
  if (device === undefined) return state;
  const { created, steps, final, model_tolerance: tolerance, kernel_digests: digests } = document;
  const run: OffloadRun = { created, steps, total: steps.length, final, tolerance, digests };
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
      ran: renamed(state.ran, former.id, device.id),
      shelf: renamed(state.shelf, former.id, device.id),
      outdated: renamed(state.outdated, former.id, device.id),
      partial: renamed(state.partial, former.id, device.id),
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

type VerdictEvent = Extract<JobEvent, { type: "verdict" }>;

/** Verdicts that come in a row are taken together. */
function withEvents(state: ResultsState, events: readonly JobEvent[]): ResultsState {
  let next = state;
  let row: VerdictEvent[] = [];
  for (const event of events) {
    const last = row[0];
    if (last !== undefined && (event.type !== "verdict" || event.device !== last.device)) {
      next = withVerdicts(next, last.device, row);
      row = [];
    }
    if (event.type === "verdict") row.push(event);
    else next = withEvent(next, event);
  }
  return row[0] === undefined ? next : withVerdicts(next, row[0].device, row);
}

function withVerdicts(state: ResultsState, device: string, events: readonly VerdictEvent[]): ResultsState {
  const { job } = state;
  if (job === null) return state;
  const { [device]: _, ...compiling } = job.compiling;
  const counts = { ...job.counts };
  const failing = new Set(job.failing);
  let { left } = job;
  for (const event of events) {
    const verdict = asState(event.result.verdict);
    counts[verdict] += 1;
    if (isProblem(verdict)) failing.add(event.result.kernel);
    left = withLeft(left, event);
  }
  // An offload tests the operators first; what it counts are kernels moved.
  const done = job.kind === "offload" ? job.done : job.done + events.length;
  const next = { ...state, job: { ...job, compiling, counts, failing: [...failing], left, done } };
  const told = events.map(({ result }) => ({ result, digest: job.digests[result.kernel] }));
  return withResults(next, device, told, job.trial);
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
    case "kernels": {
      const { texts } = state.asked[job.job] ?? {};
      const [kernel, ...more] = Object.keys(event.digests);
      const next = update({
        digests: { ...job.digests, ...event.digests },
        trial: event.trial ?? job.trial,
      });
      if (texts === undefined || kernel === undefined || more.length > 0) return next;
      return withKnown(next, kernel, texts, event.digests[kernel] ?? "");
    }
    case "compile": {
      const { kernel, done, total } = event;
      return update({
        compiling: { ...job.compiling, [event.device]: { kernel, done, total } },
        compiled: { ...job.compiled, [event.device]: { done, total } },
        left: withLeft(job.left, event),
      });
    }
    case "step": {
      const run = state.offloads[event.device] ?? freshRun();
      const moved = { ...run, steps: [...run.steps, event.step], total: event.total, digests: job.digests };
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

function withLeft(left: JobState["left"], event: { device: string; left?: number | null }): JobState["left"] {
  return typeof event.left === "number" ? { ...left, [event.device]: event.left } : left;
}

function freshRun(): OffloadRun {
  return { created: null, steps: [], total: 0, final: null, tolerance: null, digests: {} };
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
  if (job.trial) return next;
  const { [device]: _, ...created } = state.created;
  const { [device]: __, ...partial } = state.partial;
  const run = new Set(Object.values(state.verdicts[device] ?? {}).map((test) => test.kernel));
  const range = [...run].filter((kernel) => inRange(job, kernel));
  const left = withoutKernels<ResultsState>(next, device, range);
  return { ...left, created, partial, verdicts: { ...left.verdicts, [device]: left.verdicts[device] ?? {} } };
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
    let { partial } = next;
    if (!state.job.trial) {
      for (const { id } of document.devices) partial = withPartial(partial, document, id);
    }
    next = { ...next, created, partial };
  }
  // Also where it was cancelled before its device was there, or failed.
  if (ended !== "done" && state.job.kind === "validation") {
    next = state.job.devices.reduce(restored, next);
  }
  return next;
}
