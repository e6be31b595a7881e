/** The console's pages. */

import { bytes, count } from "../model/format";
import { Table } from "../parts/Table";
import { CoverageChart } from "./CoverageChart";
import {
  ago,
  counted,
  type FieldDocument,
  failureGroups,
  type Release,
  stateOf,
  taskVersions,
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
      {document.releases.map((release) => (
        <section key={release.number} class="card stack">
          <h2>
            {release.task} {release.version} <State release={release} />
          </h2>
          {release.reason !== "" && <p class="reason">{release.reason}</p>}
          <CoverageChart release={release} now={document.now} />
          <p>
            In this step {count(release.devices, "device")}{" "}
            {document.share < 1 && `of the ${100 * document.share}% that are watched `}
            reported, {release.failed} failed, {release.slow} slow. {count(release.samples.judged, "sample")}{" "}
            judged: {release.samples.failed} of {count(release.samples.calls, "operator call")} wrong,{" "}
            {release.samples.waiting} waiting.
          </p>
        </section>
      ))}
    </>
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
};

function RunFailures({ document }: { document: FieldDocument }) {
  if (document.failed_runs.length === 0) return <p>No run of a task failed.</p>;
  return (
    <section class="card stack">
      <h2>Runs that failed</h2>
      <Table
        heads={["task", "why", "where", "browser", "GPU", "devices", "latest"]}
        rows={document.failed_runs.map((one, i) => ({
          key: i,
          cells: [
            `${one.task} ${one.version}`,
            KINDS[one.kind] ?? one.kind,
            one.what ? <code>{one.what}</code> : "not known",
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
