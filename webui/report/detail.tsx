/** One test, opened: everything that is known of it. */

import { render } from "preact";
import type { RunSuite, RunTest } from "../src/api/generated/results";
import { Fact } from "../src/parts/Basics";
import { Evidence, Tolerances } from "../src/parts/Evidence";
import { shellQuoted } from "./data";
import { el } from "./dom";

export function detail(test: RunTest, suite: RunSuite | undefined): HTMLElement {
  const box = el("div", { class: "stack detail" });
  try {
    render(<Detail test={test} suite={suite} />, box);
  } catch {
    // What a device reports is not ours to shape: shown as it came.
    box.replaceChildren(el("pre", { class: "message" }, JSON.stringify(test, null, 1)));
  }
  return box;
}

function Detail({ test, suite }: { test: RunTest; suite: RunSuite | undefined }) {
  return (
    <>
      <Expectation test={test} />
      {test.attempts.length > 1 && (
        <section>
          <h3>Attempts{test.flaky && " (flaky)"}</h3>
          <ol class="attempts">
            {[...test.earlier, test].map(({ verdict, message }, at) => (
              <li key={at}>{message === "" ? verdict : `${verdict}: ${message}`}</li>
            ))}
          </ol>
        </section>
      )}
      <Evidence result={test} />
      <Tolerances tolerances={test.tolerances} />
      <dl class="row facts">
        <Fact name="node" value={test.node} />
        <Fact name="step" value={String(test.step)} />
      </dl>
      {suite && (
        <p class="command">
          A page of this test alone:{" "}
          <code>{`tapml export ${shellQuoted(suite.path)} ${shellQuoted(test.id)} --html repro.html`}</code>
        </p>
      )}
    </>
  );
}

function Expectation({ test }: { test: RunTest }) {
  const { expected } = test;
  if (!expected) return null;
  const until = expected.expires ? `until ${expected.expires}` : "without an end";
  return (
    <dl class="row facts box">
      <Fact
        name="baseline"
        value={`expects ${expected.verdict} (${expected.expired ? "expired: " : ""}${until})`}
      />
      {expected.reason && <Fact name="reason" value={expected.reason} />}
      {test.outcome === "fixed" && <Fact name="now" value="better: record it with --update-baseline" />}
    </dl>
  );
}
