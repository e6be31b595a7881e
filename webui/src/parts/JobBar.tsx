import { useState } from "preact/hooks";
import type { DeviceDocument } from "../api/generated/results";
import { duration, grouped } from "../model/format";
import { changedSince, editedText, type Kernels } from "../model/older";
import type { JobState } from "../model/results";
import { describe, OLDER, total } from "../model/verdicts";

const VERB = { validation: "Validation", offload: "Offload", locate: "Search for faulty kernels" } as const;
const ENDED = { done: "done", failed: "failed", cancelled: "cancelled" } as const;

/** How far the job is, in words beside the bar; its messages below. */
export function JobBar(props: {
  job: JobState | null;
  devices: readonly DeviceDocument[];
  /** As they are on disk. */
  kernels: Kernels;
}) {
  const { job } = props;
  /** The job that was put away. */
  const [away, setAway] = useState<string | null>(null);
  if (job === null || (job.state !== "running" && job.job === away)) return null;
  const other = job.trial ? "of texts that are tried, not on disk" : olderText(job, props.kernels);
  const problems = job.messages.filter((message) => message.level !== "info");
  const last = job.messages.at(-1);
  const running = job.state === "running";
  const done = Math.min(job.done, job.total || job.done);
  const bar = job.phase ?? steps(job, done);
  return (
    <section class={`stack tight job-${job.state}`} aria-label="Job">
      <div class="row job-line">
        <strong>
          {job.kind === null ? "Starting" : VERB[job.kind]}
          {job.state !== "running" && ` ${ENDED[job.state]}`}
        </strong>
        <progress
          // Without a number the bar says only that something goes on.
          value={!running ? 1 : bar.total > 0 || job.phase === null ? bar.done : undefined}
          max={running ? bar.total || 1 : 1}
          aria-label={bar.total > 0 ? `${bar.done} of ${bar.total}` : "running"}
        />
        <span role="status">{progressText(job, props.devices, done)}</span>
        {other !== "" && <span class="muted">({other})</span>}
        {!running && (
          <button type="button" class="quiet" aria-label="Put this away" onClick={() => setAway(job.job)}>
            ✕
          </button>
        )}
      </div>
      {job.error && (
        <p class="job-error" role="alert">
          <span aria-hidden="true">✗ </span>
          {job.error}
        </p>
      )}
      {running && last?.level === "info" && <p class="muted">{last.text}</p>}
      {problems.length > 0 && (
        <ul class="messages">
          {problems.slice(-5).map((message, at) => (
            <li key={at}>
              <span aria-hidden="true">{message.level === "error" ? "✗" : "⚠"} </span>
              {message.text}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** Tests and compilations together: the first takes both. */
function steps(job: JobState, done: number): { done: number; total: number } {
  if (job.kind === "offload") return { done, total: job.total };
  const compiled = Object.values(job.compiled);
  const sum = (key: "done" | "total") => compiled.reduce((all, one) => all + one[key], 0);
  return { done: done + sum("done"), total: job.total + sum("total") };
}

function olderText(job: JobState, kernels: Kernels): string {
  const changed = changedSince(job.digests, kernels);
  return changed.size > 0 ? `${OLDER}: ${editedText(changed)}` : "";
}

function progressText(job: JobState, devices: readonly DeviceDocument[], done: number): string {
  const what = job.kind === "offload" ? "kernels tried" : "tests";
  const verdicts = job.kind !== "offload" && done > 0 ? `: ${describe(job.counts)}` : "";
  const count = job.total > 0 ? `${grouped(done)} of ${grouped(job.total)} ${what}${verdicts}` : "";
  if (job.state !== "running") {
    const missing = job.total - done;
    const kept = job.kind === "validation" && !job.trial && done > 0 && missing > 0;
    return kept ? `${count}; these are kept, the other ${grouped(missing)} are as they were` : count;
  }
  const parts = [count];
  const compiling = Object.entries(job.compiling).find(([, { done: compiled, total }]) => compiled < total);
  if (compiling !== undefined) {
    const [id, { kernel, done: compiled, total }] = compiling;
    const name = devices.find((device) => device.id === id)?.name ?? id;
    parts.push(`${name} compiles ${kernel} (${compiled} of ${total})`);
  } else if (job.phase !== null) {
    return job.phase.total > 0
      ? `${job.phase.text} (${job.phase.done} of ${job.phase.total})`
      : job.phase.text;
  } else if (job.devices.length === 0) return "waiting for a device";
  else if (job.kind === "offload" && done === 0 && total(job.counts) > 0) {
    return `tests the operators first: ${describe(job.counts)}`;
  } else {
    const open = Object.values(job.compiled).filter((one) => one.done < one.total);
    parts.push(...open.slice(0, 1).map((one) => `${one.done} of ${one.total} kernels compiled`));
  }
  const left = job.kind === "validation" ? Object.values(job.left) : [];
  if (left.length > 0 && done < job.total) parts.push(`about ${duration(Math.max(...left))} left`);
  return parts.filter(Boolean).join("; ");
}
