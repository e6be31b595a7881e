import type { DeviceDocument } from "../api/generated/results";
import { grouped } from "../model/format";
import type { JobState } from "../model/results";
import { describe, total } from "../model/verdicts";

const VERB = { validation: "Validation", offload: "Offload", locate: "Search for faulty kernels" } as const;
const ENDED = { done: "done", failed: "failed", cancelled: "cancelled" } as const;

/** How far the job is, in words beside the bar; its messages below. */
export function JobBar(props: { job: JobState | null; devices: readonly DeviceDocument[] }) {
  const { job } = props;
  if (job === null) return null;
  const problems = job.messages.filter((message) => message.level !== "info");
  const last = job.messages.at(-1);
  const running = job.state === "running";
  const done = Math.min(job.done, job.total || job.done);
  const bar = job.phase ?? { done, total: job.total };
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

function progressText(job: JobState, devices: readonly DeviceDocument[], done: number): string {
  const what = job.kind === "offload" ? "kernels" : "tests";
  const verdicts = job.kind !== "offload" && done > 0 ? `: ${describe(job.counts)}` : "";
  const count = job.total > 0 ? `${grouped(done)} of ${grouped(job.total)} ${what}${verdicts}` : "";
  if (job.state !== "running") return count;
  const compiling = Object.entries(job.compiling)[0];
  if (compiling !== undefined && compiling[1].done < compiling[1].total) {
    const [id, { kernel, done: compiled, total }] = compiling;
    const name = devices.find((device) => device.id === id)?.name ?? id;
    return `${count}; ${name} compiles ${kernel} (${compiled} of ${total})`;
  }
  if (job.phase !== null)
    return job.phase.total > 0
      ? `${job.phase.text} (${job.phase.done} of ${job.phase.total})`
      : job.phase.text;
  if (job.devices.length === 0) return "waiting for a device";
  if (job.kind === "offload" && done === 0 && total(job.counts) > 0)
    return `tests the operators first: ${describe(job.counts)}`;
  return count;
}
