/** The console's pages. */

import { bytes, count } from "../model/format";
import { Table } from "../parts/Table";
import { CoverageChart } from "./CoverageChart";
import {
  ago,
  counted,
  type FieldDocument,
  failureGroups,
  isOver,
  limitsOf,
  type Release,
  share,
  stateOf,
  taskVersions,
  took,
} from "./model";

function State(props: { release: Release }) {
  const over = props.release.status === "rolled-back";
  return (
    <span class={over ? "state is-over" : "state"}>
      {over ? "✗" : "▶"} {stateOf(props.release)}
    </span>
  );
}

export function Releases({ document }: { document: FieldDocument }) {
  if (document.releases.length === 0)
    return <p>Nothing was released: `tapml field release` begins a release.</p>;
  return (
    <>
      {document.releases.map((release) => {
        const title = (
          <h2>
            {release.task} {release.version} <State release={release} />
          </h2>
        );
        const reason = release.reason !== "" && <p class="reason">{release.reason}</p>;
        return isOver(release, document.releases) ? (
          <details key={release.number} class="card stack">
            <summary>{title}</summary>
            {reason}
            <Progress release={release} document={document} />
          </details>
        ) : (
          <section key={release.number} class="card stack">
            {title}
            {reason}
            <Progress release={release} document={document} />
          </section>
        );
      })}
    </>
  );
}

function Progress({ release, document }: { release: Release; document: FieldDocument }) {
  return (
    <>
      {release.waits !== "" && <p>Nothing happens yet: {release.waits}.</p>}
      {release.coverage.some(([, devices]) => devices > 0) ? (
        <CoverageChart release={release} now={document.now} />
      ) : (
        <p>No device has held it so far.</p>
      )}
      <StepTable release={release} />
      <p>
        {limitsOf(release)}
        {document.share < 1 && ` Reports are of the ${100 * document.share}% that are watched.`}
        {(release.samples.judged > 0 || release.samples.waiting > 0) &&
          ` ${count(release.samples.judged, "sample")} judged: ${release.samples.failed} of ${count(
            release.samples.calls,
            "operator call",
          )} wrong, ${release.samples.waiting} waiting.`}
      </p>
    </>
  );
}

function StepTable({ release }: { release: Release }) {
  if (release.rates.length === 0) return <p>No device has reported a run yet.</p>;
  return (
    <Table
      caption="Devices by their first run in a step"
      heads={["step", "devices", "failed", "slow", "a run took", "p95"]}
      rows={release.rates.map(({ step, devices, failed, slow, times }) => ({
        key: step,
        cells: [
          release.steps[step] ?? String(step),
          devices,
          <span class={failed > 0 ? "is-fail" : undefined}>{share(failed, devices)}</span>,
          release.thresholds.slow_ms === null ? "–" : share(slow, devices),
          times === null ? "not told" : took(times.p50),
          times === null ? "–" : took(times.p95),
        ],
      }))}
    />
  );
}

export function Tasks({ document }: { document: FieldDocument }) {
  const tasks = taskVersions(document.releases, document.devices);
  if (tasks.length === 0) return <p>No task was released yet.</p>;
  return (
    <>
      {tasks.map(({ task, versions }) => (
        <section key={task} class="card stack">
          <h2>{task}</h2>
          <Table
            heads={["version", "release", "devices hold it", "begun", "manifest"]}
            rows={versions.map(({ release, holding }) => ({
              key: release.version,
              cells: [
                release.version,
                <State release={release} />,
                holding,
                ago(release.events[0]?.at ?? release.since, document.now),
                <code>{release.manifest.slice(0, 16)}</code>,
              ],
            }))}
          />
        </section>
      ))}
    </>
  );
}

export function Devices({ document }: { document: FieldDocument }) {
  const wrong = new Set(document.failures.map(({ device }) => device));
  if (document.devices.length === 0) return <p>No device has asked yet.</p>;
  return (
    <section class="card stack">
      <h2>{count(document.devices.length, "device")}, those that asked last first</h2>
      <Table
        heads={["device", "browser", "GPU", "app", "holds", "calls", "asked"]}
        rows={document.devices.map((one) => ({
          key: one.device,
          cells: [
            <code>{one.device}</code>,
            one.browser,
            one.gpu || "not told",
            one.app,
            Object.entries(one.holds)
              .map(([task, version]) => `${task} ${version}`)
              .join(", ") || "nothing",
            wrong.has(one.device) ? <span class="is-fail">✗ wrong</span> : "–",
            ago(one.at, document.now),
          ],
        }))}
      />
    </section>
  );
}

export function TunnelTraffic({ document: { traffic, now } }: { document: FieldDocument }) {
  return (
    <>
      <section class="card stack">
        <h2>{counted(traffic)}, since it was started</h2>
        <p>
          {count(traffic.answers, "answer")}
          {traffic.devices !== null && ` (${count(traffic.devices, "device")} today)`},{" "}
          {count(traffic.reports, "report")}. The tunnel has {count(traffic.connections, "connection")} open,
          and {bytes(traffic.bytes)} came through it.
        </p>
      </section>
      <section class="card stack">
        <h2>
          {count(traffic.records, "record")} of {count(traffic.streams, "stream")} in the database
        </h2>
        {traffic.emitted.length === 0 && <p>What tasks emit comes here, if the page's user consents.</p>}
        {traffic.emitted.length > 0 && (
          <Table
            heads={["task", "name", "records", "devices", "the latest"]}
            rows={traffic.emitted.map((one) => ({
              key: `${one.task} ${one.version} ${one.name}`,
              cells: [
                `${one.task} ${one.version}`,
                <code>{one.name}</code>,
                one.records,
                one.devices,
                ago(one.latest, now),
              ],
            }))}
          />
        )}
      </section>
    </>
  );
}

const KINDS: Record<string, string> = {
  start: "did not start",
  exception: "an exception",
  time: "ran too long",
  crash: "its VM ended",
  queue: "too many events waited",
  storage: "could not keep its rows",
  pull: "could not be installed",
};

/** Of versions that could not be installed. */
const WRONG: Record<string, string> = {
  "task.json": "its task.json",
  untrusted: "not what was signed",
  missing: "a file is missing",
};

function RunFailures({ document }: { document: FieldDocument }) {
  if (document.failed_runs.length === 0)
    return <p>No run of a task failed, and no device failed to install one.</p>;
  return (
    <section class="card stack">
      <h2>Runs and installations that failed</h2>
      <Table
        heads={["task", "why", "where", "browser", "GPU", "devices", "latest"]}
        rows={document.failed_runs.map((one, i) => ({
          key: i,
          cells: [
            `${one.task} ${one.version}`,
            KINDS[one.kind] ?? one.kind,
            one.what ? <code>{WRONG[one.what] ?? one.what}</code> : "not known",
            one.browser,
            one.gpu,
            one.devices,
            ago(one.latest, document.now),
          ],
        }))}
      />
    </section>
  );
}

export function Failures({ document }: { document: FieldDocument }) {
  const groups = failureGroups(document.failures);
  return (
    <>
      <RunFailures document={document} />
      {groups.length === 0 && <p>No sampled operator call was wrong.</p>}
      {groups.map((group) => (
        <section key={group.key} class="card stack">
          <h2>
            <span class="is-fail">✗</span> {group.kernel}
          </h2>
          <p>
            {group.browser}, {group.gpu || "a GPU that is not told"}: wrong on{" "}
            {count(group.devices, "device")}
          </p>
          <Table
            heads={["task", "node", "variant", "device", "what is wrong", "when", "test"]}
            rows={group.failures.map((one, i) => ({
              key: one.link || i,
              cells: [
                `${one.task} ${one.version}`,
                one.node,
                one.variant,
                <code>{one.device}</code>,
                one.message,
                ago(one.at, document.now),
                one.link ? (
                  <a href={`/s/${one.link}`} target="_blank" rel="noopener">
                    Open
                    <span class="sr-only">
                      {" "}
                      the test of {one.node} on {one.device}
                    </span>
                  </a>
                ) : (
                  "none"
                ),
              ],
            }))}
          />
        </section>
      ))}
    </>
  );
}
