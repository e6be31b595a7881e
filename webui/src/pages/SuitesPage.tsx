import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { api } from "../api/client";
import type { DeviceDocument } from "../api/generated/results";
import { onKernelsChanged } from "../api/socket";
import type { Results, SuiteSummary } from "../api/types";
import { count, date } from "../model/format";
import { accusedCounts } from "../model/locate";
import { changedSince, type Kernels } from "../model/older";
import { asState, noCounts, OLDER, VERDICTS, WORD } from "../model/verdicts";
import { Doubts, Link, Pending, Problem, TopBar, VerdictBadge, WarningBadge } from "../parts/Basics";
import { DeviceSection } from "../parts/DeviceSection";
import { ModelCards } from "../parts/ModelCards";
import { OpenTest } from "../parts/OpenTest";
import { ReferenceFacts, SuiteBadges, SuiteSize } from "../parts/SuiteBadges";
import { useResource } from "../state/resource";
import { suitePath } from "../state/router";

export function SuitesPage() {
  const suites = useResource("suites", api.suites);
  const models = useResource("models", api.models);
  useEffect(() => {
    document.title = "tapml";
  }, []);
  const onlyModels = suites.data?.length === 0 && (models.data?.models.length ?? 0) > 0;
  return (
    <>
      <TopBar />
      <main class="page">
        {models.data?.pages && (
          <p>
            Web pages: <a href="/pages/">{`${location.origin}/pages/`}</a>
          </p>
        )}
        <ModelCards of={models} />
        {!onlyModels && <h1>Suites</h1>}
        {(suites.loading || suites.error) && <Pending what="the suites" of={suites} />}
        {suites.data?.length === 0 && !onlyModels && <NoSuites />}
        <ul class="stack suites">
          {suites.data?.map((suite) =>
            "problem" in suite ? (
              <li key={suite.id} class="stack card suite-card">
                <Problem title={`${suite.id} is damaged.`} error={suite.problem} />
              </li>
            ) : (
              <SuiteCard key={suite.id} suite={suite} />
            ),
          )}
        </ul>
        <OpenTest />
        <DeviceSection />
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
    <li class="stack card suite-card">
      <div class="row card-head">
        <h2>
          <Link href={suitePath(suite.id)}>{suite.name}</Link>
        </h2>
        <SuiteBadges suite={suite} />
      </div>
      <Doubts what={suite.name} doubts={suite.doubts} />
      <p class="model">
        {suite.model.title} <span class="muted">{suite.model.kind}</span>
      </p>
      <p class="row facts">
        <SuiteSize suite={suite} kernels={suite.kernels} tests={suite.tests} />
      </p>
      <p class="row facts">
        <ReferenceFacts suite={suite} />
      </p>
      <LatestResults suite={suite.id} />
    </li>
  );
}

function LatestResults(props: { suite: string }) {
  const results = useResource(props.suite, () => api.results(props.suite));
  const { reload } = results;
  useEffect(
    () => onKernelsChanged((message) => message.suite === props.suite && reload()),
    [props.suite, reload],
  );
  if (results.error) {
    return <Problem title="Its results could not be loaded." error={results.error} retry={results.reload} />;
  }
  if (results.data === null) return <p class="muted latest">Loading results…</p>;
  const { validations, offloads, locates, kernels } = results.data;
  if (validations.length + offloads.length + locates.length === 0)
    return <p class="muted latest">Not run on any device yet.</p>;
  return (
    <ul class="stack tight latest" aria-label="Latest results">
      {validations.map((document) => (
        <ValidationLine key={idsOf(document)} document={document} kernels={kernels} />
      ))}
      {offloads.map((document) => (
        <OffloadLine key={idsOf(document)} document={document} kernels={kernels} />
      ))}
      {locates.map((document) => (
        <LocateLine key={idsOf(document)} document={document} kernels={kernels} />
      ))}
    </ul>
  );
}

function idsOf({ devices }: { devices: readonly DeviceDocument[] }): string {
  return devices.map(({ id }) => id).join();
}

/** When it was, on which devices, and what came of it. */
function Line(props: {
  document: { devices: readonly DeviceDocument[]; created: string; interrupted?: boolean };
  children: ComponentChildren;
}) {
  const { devices, created, interrupted } = props.document;
  return (
    <li title={date(created)}>
      <span class="latest-device">{devices.map(({ name }) => name).join(", ")}</span>
      {props.children}
      {interrupted && <span class="muted">interrupted</span>}
    </li>
  );
}

const MOST_NAMES = 4;

function KernelNames({ names }: { names: readonly string[] }) {
  if (names.length === 0) return null;
  const rest = names.length > MOST_NAMES ? ` and ${names.length - MOST_NAMES} more` : "";
  return <span class="muted">{`${names.slice(0, MOST_NAMES).join(", ")}${rest}`}</span>;
}

interface LineProps<T> {
  document: T;
  kernels: Kernels;
}

function ValidationLine(props: LineProps<Results["validations"][number]>) {
  const { document, kernels } = props;
  const changed = changedSince(document.kernel_digests, kernels);
  const counts = noCounts();
  for (const test of document.tests) counts[changed.has(test.kernel) ? "stale" : asState(test.verdict)] += 1;
  return (
    <Line document={document}>
      {[...VERDICTS, "stale" as const]
        .filter((state) => counts[state] > 0)
        .map((state) => (
          <VerdictBadge key={state} state={state} word={`${counts[state]} ${WORD[state]}`} />
        ))}
      <KernelNames names={document.summary.failing_kernels.filter((kernel) => !changed.has(kernel))} />
    </Line>
  );
}

function OffloadLine(props: LineProps<Results["offloads"][number]>) {
  const { summary, final, kernel_digests } = props.document;
  const older = changedSince(kernel_digests, props.kernels).size > 0;
  const all = summary.kept_on_reference.length === 0;
  return (
    <Line document={props.document}>
      <span>offload</span>
      <VerdictBadge
        state={older ? "stale" : all ? "pass" : "fail"}
        word={`${summary.offloaded} of ${count(summary.kernels, "kernel")} offloaded`}
      />
      {final && (
        <VerdictBadge state={older ? "stale" : final.verdict} word={`whole model: ${final.verdict}`} />
      )}
      {older && <span class="muted">{OLDER}</span>}
    </Line>
  );
}

function LocateLine(props: LineProps<Results["locates"][number]>) {
  const { summary, interrupted, kernel_digests } = props.document;
  const changed = changedSince(kernel_digests, props.kernels);
  const older = changed.size > 0;
  const accused = [...summary.faulty_kernels, ...summary.unbounded_kernels];
  return (
    <Line document={props.document}>
      <span>locate</span>
      {summary.verdict === "clean" ? (
        <VerdictBadge state={older ? "stale" : interrupted ? "none" : "pass"} word="no faulty kernel" />
      ) : (
        <VerdictBadge
          state={older ? "stale" : summary.verdict === "unbounded" ? "unbounded" : "fail"}
          word={summary.verdict === "compound" ? "compound error" : accusedCounts(summary).join(", ")}
        />
      )}
      {older && <span class="muted">{OLDER}</span>}
      <KernelNames names={accused} />
      <Warned word="suspicious" kernels={summary.suspicious_kernels} changed={changed} />
      <Warned word="a barrier is missing" kernels={summary.racing_kernels} changed={changed} />
    </Line>
  );
}

/** A warning of kernels that are as they were, and one that is past of those that are others by now. */
function Warned(props: { word: string; kernels: readonly string[]; changed: ReadonlySet<string> }) {
  const { word, kernels, changed } = props;
  const now = kernels.filter((kernel) => !changed.has(kernel));
  const former = kernels.filter((kernel) => changed.has(kernel));
  return (
    <>
      {now.length > 0 && <WarningBadge word={word} />}
      <KernelNames names={now} />
      {former.length > 0 && <VerdictBadge state="stale" word={`${word}, ${OLDER}`} />}
      <KernelNames names={former} />
    </>
  );
}
