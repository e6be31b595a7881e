import type { SuiteDetail } from "../api/types";
import { count } from "../model/format";
import { AddToSuite } from "./AddToSuite";
import { Doubts, Link } from "./Basics";
import { ReferenceFacts, SuiteBadges, SuiteSize } from "./SuiteBadges";

export function SuiteHeader(props: { suite: SuiteDetail }) {
  const { suite } = props;
  const steps = suite.steps.map((step) => step.description).filter(Boolean);
  return (
    <header class="suite-header">
      <div class="row card-head">
        <Link href="/" class="crumb">
          Suites
        </Link>
        <span aria-hidden="true" class="muted">
          /
        </span>
        <h1>{suite.name}</h1>
        <SuiteBadges suite={suite} />
      </div>
      <Doubts what={suite.name} doubts={suite.doubts} />
      <p class="row facts">
        <span title={suite.model.source}>{suite.model.title}</span>
        <SuiteSize suite={suite} kernels={suite.kernels.length} tests={suite.tests.length} />
        <ReferenceFacts suite={suite} />
        {steps.length > 0 && (
          <span title={steps.join("\n")}>
            input: {steps[0]}
            {steps.length > 1 && ` and ${count(steps.length - 1, "more step", "more steps")}`}
          </span>
        )}
      </p>
      {suite.model.kind === "imported" && <AddToSuite suite={suite} />}
    </header>
  );
}
