import { useEffect } from "preact/hooks";
import { api } from "../api/client";
import type { Results, SuiteSummary } from "../api/types";
import { bytes, count, date } from "../model/format";
import { VERDICTS } from "../model/verdicts";
import { Link, Loading, Problem, TopBar, VerdictBadge } from "../parts/Basics";
import { DeviceList } from "../parts/DeviceList";
import { OpenTest } from "../parts/OpenTest";
import { OracleFact, referenceText, SuiteBadges } from "../parts/SuiteBadges";
import { useResource } from "../state/resource";
import { suitePath } from "../state/router";

export function SuitesPage() {
  const suites = useResource("suites", api.suites);
  useEffect(() => {
    document.title = "tapml";
  }, []);
  return (
    <>
      <TopBar />
      <main class="page">
        <h1>Suites</h1>
        {suites.loading && <Loading what="suites" />}
        {suites.error && (
          <Problem title="The suites could not be loaded." error={suites.error} retry={suites.reload} />
        )}
        {suites.data?.length === 0 && <NoSuites />}
        <ul class="suites">
          {suites.data?.map((suite) =>
            "problem" in suite ? (
              <li key={suite.id} class="card suite-card">
                <Problem title={`${suite.id} is damaged.`} error={suite.problem} />
              </li>
            ) : (
              <SuiteCard key={suite.id} suite={suite} />
            ),
          )}
        </ul>
        <OpenTest />
        <DeviceList />
      </main>
    </>
  );
}

function NoSuites() {
  return (
    <section class="empty">
      <h2>No suite yet</h2>
      <p>
        A suite holds every operator call of a real run of your model on a CPU, each as a test. Carve one,
        then serve it:
      </p>
      <pre class="command">
        <code>
          {'tapml carve minilm --text "A carved test is a real call" -o minilm.suite\n'}
          {"tapml serve minilm.suite"}
        </code>
      </pre>
    </section>
  );
}

function SuiteCard(props: { suite: SuiteSummary }) {
  const { suite } = props;
  return (
    <li class="card suite-card">
      <div class="card-head">
        <h2>
          <Link href={suitePath(suite.id)}>{suite.name}</Link>
        </h2>
        <SuiteBadges suite={suite} />
      </div>
      <p class="model">
        {suite.model.title} <span class="muted">{suite.model.kind}</span>
      </p>
      <p class="facts">
        <span>{count(suite.kernels, "kernel")}</span>
        <span>{count(suite.nodes, "node")}</span>
        <span>{count(suite.tests, "test")}</span>
        <span>{bytes(suite.bytes)}</span>
        <span>
          {suite.model.kind === "imported" ? "opened" : "carved"} {date(suite.created)}
        </span>
      </p>
      <p class="facts">
        <span>reference: {referenceText(suite.reference)}</span>
        <OracleFact suite={suite} />
      </p>
      <LatestResults suite={suite.id} />
    </li>
  );
}

function LatestResults(props: { suite: string }) {
  const results = useResource(props.suite, () => api.results(props.suite));
  if (results.error) {
    return <Problem title="Its results could not be loaded." error={results.error} retry={results.reload} />;
  }
  if (results.data === null) return <p class="muted latest">Loading results…</p>;
  const { validations, offloads, locates } = results.data;
  if (validations.length + offloads.length + locates.length === 0)
    return <p class="muted latest">Not run on any device yet.</p>;
  return (
    <ul class="latest" aria-label="Latest results">
      {validations.map((document) => (
        <ValidationLine key={document.devices.map((device) => device.id).join()} document={document} />
      ))}
      {offloads.map((document) => (
        <OffloadLine key={document.devices.map((device) => device.id).join()} document={document} />
      ))}
      {locates.map((document) => (
        <LocateLine key={document.devices.map((device) => device.id).join()} document={document} />
      ))}
    </ul>
  );
}

function ValidationLine(props: { document: Results["validations"][number] }) {
  const { summary, devices, interrupted, created } = props.document;
  const names = devices.map((device) => device.name).join(", ");
  return (
    <li title={date(created)}>
      <span class="latest-device">{names}</span>
      {VERDICTS.filter((verdict) => (summary[verdict] ?? 0) > 0).map((verdict) => (
        <VerdictBadge key={verdict} state={verdict} word={`${summary[verdict]} ${verdict}`} />
      ))}
      {summary.failing_kernels.length > 0 && (
        <span class="muted">
          {summary.failing_kernels.slice(0, 4).join(", ")}
          {summary.failing_kernels.length > 4 && ` and ${summary.failing_kernels.length - 4} more`}
        </span>
      )}
      {interrupted && <span class="muted">interrupted</span>}
    </li>
  );
}

function OffloadLine(props: { document: Results["offloads"][number] }) {
  const { summary, devices, final } = props.document;
  const all = summary.kept_on_reference.length === 0;
  return (
    <li>
      <span class="latest-device">{devices.map((device) => device.name).join(", ")}</span>
      <span>offload</span>
      <VerdictBadge
        state={all ? "pass" : "fail"}
        word={`${summary.offloaded} of ${count(summary.kernels, "kernel")} offloaded`}
      />
      {final && <VerdictBadge state={final.verdict} word={`whole model: ${final.verdict}`} />}
    </li>
  );
}

function LocateLine(props: { document: Results["locates"][number] }) {
  const { summary, devices, interrupted, created } = props.document;
  const faulty = summary.faulty_kernels;
  return (
    <li title={date(created)}>
      <span class="latest-device">{devices.map((device) => device.name).join(", ")}</span>
      <span>locate</span>
      {summary.verdict === "clean" ? (
        <VerdictBadge state={interrupted ? "none" : "pass"} word="no faulty kernel" />
      ) : (
        <VerdictBadge
          state="fail"
          word={summary.verdict === "compound" ? "compound error" : count(faulty.length, "faulty kernel")}
        />
      )}
      <span class="muted">
        {faulty.slice(0, 4).join(", ")}
        {faulty.length > 4 && ` and ${faulty.length - 4} more`}
      </span>
      {interrupted && <span class="muted">interrupted</span>}
    </li>
  );
}
