import type { SuiteDetail } from "../api/types";
import { count } from "../model/format";
import { AddToSuite } from "./AddToSuite";
import { Doubts, Link } from "./Basics";
import { ReferenceFacts, SuiteBadges, SuiteSize } from "./SuiteBadges";

/** Which suite this is, in the bar above it; what is known of it beside that, folded. */
export function SuiteTitle(props: { suite: SuiteDetail }) {
  const { suite } = props;
  const steps = suite.steps.map((step) => step.description).filter(Boolean);
  return (
    <>
      <div class="row suite-title">
        <Link href="/" class="crumb">
          Suites
        </Link>
        <span aria-hidden="true" class="muted">
          /
        </span>
        <h1>{suite.name}</h1>
        <SuiteBadges suite={suite} />
      </div>
      <details class="suite-facts">
        <summary>
          <span class="clip">{suite.model.title || "about this suite"}</span>
        </summary>
        <ul class="stack tight card">
          <li title={suite.model.source}>{suite.model.title}</li>
          <li class="row facts">
            <SuiteSize suite={suite} kernels={suite.kernels.length} tests={suite.tests.length} />
          </li>
          <li class="row facts">
            <ReferenceFacts suite={suite} />
          </li>
          {steps.length > 0 && (
            <li title={steps.join("\n")}>
              input: {steps[0]}
              {steps.length > 1 && ` and ${count(steps.length - 1, "more step", "more steps")}`}
            </li>
          )}
        </ul>
      </details>
    </>
  );
}

/** What must be seen before anything is believed, and what is to be done with an imported test. */
export function SuiteNotes(props: { suite: SuiteDetail }) {
  const { suite } = props;
  return (
    <>
      <Doubts what={suite.name} doubts={suite.doubts} />
      {suite.model.kind === "imported" && <AddToSuite suite={suite} />}
    </>
  );
}
