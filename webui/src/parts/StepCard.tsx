/** One step of a text: its numbers, and its operators where they are tests. */

import type { SuiteGeneration } from "../api/types";
import { cosine, count, error, seconds } from "../model/format";
import { isModelTest, shown, tokenWord, type Writing, type WrittenToken } from "../model/generation";
import { testState } from "../model/matrix";
import { asState, describe, isProblem, noCounts, type State } from "../model/verdicts";
import type { Choice } from "../state/device-choice";
import { changeQuery } from "../state/router";
import type { CarvedStep, LiveWriting } from "../state/use-writing";
import { Fact, Problem } from "./Basics";
import { NodeButtons } from "./NodeButtons";
import type { Shared } from "./shared";

export interface GenerationPaneProps extends Shared {
  generation: SuiteGeneration;
  live: LiveWriting;
  /** Where it is written: the first of the chosen devices. */
  on: Choice | undefined;
}

export function StepCard(props: GenerationPaneProps & { token: WrittenToken; writing: Writing }) {
  const { token, writing } = props;
  const { compared } = token;
  const limit = writing.prompt?.tolerance?.max_abs_error ?? null;
  return (
    <article class="card stack tight step-card" aria-label={`Step of position ${token.position}`}>
      <h2>
        Position {token.position}: <code>{shown(token)}</code>{" "}
        <span class="muted">
          token {token.id}, by <code>{token.function}</code> of {count(token.tokens, "token")}
        </span>
      </h2>
      <dl class="row numbers">
        <Fact
          name="Logits differ by"
          value={compared === null ? "not compared" : error(compared.max_abs_error)}
          note={
            limit === null ? "" : `at most ${error(limit)}: ${tokenWord(token, writing.state === "running")}`
          }
        />
        {compared && (
          <>
            <Fact name="Cosine" value={cosine(compared.cosine)} />
            <Fact
              name="Likeliest"
              value={
                compared.greedy === compared.reference_greedy
                  ? `token ${compared.greedy}, as the reference's`
                  : `token ${compared.greedy}; the reference's is ${compared.reference_greedy}`
              }
              note={compared.margin > 0 ? `${error(compared.margin)} apart in its logits` : ""}
            />
          </>
        )}
        <Fact
          name="Time"
          value={seconds(token.seconds)}
          note={token.gpu_seconds === null ? "no GPU timestamps" : `${seconds(token.gpu_seconds)} of the GPU`}
        />
      </dl>
      <Operators {...props} />
    </article>
  );
}

function Operators(props: GenerationPaneProps & { token: WrittenToken }) {
  const { token, live, on } = props;
  const carved = live.steps[token.position];
  if (carved?.document) return <JudgedCalls {...props} carved={carved} />;
  if (carved && carved.error === null)
    return (
      <p role="status">
        <span class="spinner inline" aria-hidden="true" />{" "}
        {carved.total === 0
          ? "The device computes the text again, and its last call is captured…"
          : `${carved.done} of ${carved.total} operator calls judged`}
      </p>
    );
  return (
    <>
      {token.carved !== null && <StepTests {...props} step={token.carved} />}
      {carved?.error && <Problem title="" error={carved.error} />}
      <p class="row">
        {token.carved === null && <span>The suite has no tests of this step.</span>}
        <button
          type="button"
          disabled={on === undefined || live.writing?.state === "running"}
          onClick={() => on && void live.carve(token, on.value)}
        >
          Carve this step{on && ` as ${on.name} runs it`}
        </button>
      </p>
    </>
  );
}

/** The suite's own tests of the step, on the device that colours the graph. */
function StepTests(props: GenerationPaneProps & { step: number }) {
  const { suite, state, device, step } = props;
  const tests = suite.tests.filter((test) => isModelTest(suite, test) && test.step === step);
  const counts = noCounts();
  const byState = new Map<State, string[]>();
  for (const test of tests) {
    const of = device === null ? "none" : testState(state, device, test);
    counts[of] += 1;
    if (isProblem(of)) byState.set(of, [...(byState.get(of) ?? []), test.node]);
  }
  const name = props.devices.find(({ id }) => id === device)?.name;
  const first = tests[0]?.node;
  return (
    <div class="stack tight">
      <p>
        Step {step} of the suite: {count(tests.length, "operator test")},{" "}
        {name === undefined ? "not run on a device yet" : `on ${name} ${describe(counts)}`}. The graph shows
        them.{" "}
        {first !== undefined && (
          <button type="button" onClick={() => changeQuery({ node: first, step: String(step) })}>
            Open its first operator
          </button>
        )}
      </p>
      {[...byState].map(([of, nodes]) => (
        <NodeButtons
          key={of}
          nodes={nodes}
          state={of}
          node={props.node?.id ?? null}
          select={(node) => changeQuery({ node, step: String(step) })}
        />
      ))}
    </div>
  );
}

function JudgedCalls(props: GenerationPaneProps & { carved: CarvedStep }) {
  const { suite } = props;
  const calls = props.carved.document?.calls ?? [];
  const counts = noCounts();
  for (const call of calls) counts[asState(call.verdict)] += 1;
  const bad = calls.filter((call) => isProblem(asState(call.verdict)));
  const first = (bad[0] ?? calls[0])?.test?.split(".")[0];
  return (
    <div class="stack tight">
      <p>
        {count(calls.length, "operator call")} of this step: {describe(counts)}. The graph shows them; they
        are tests of the suite now.{" "}
        {first !== undefined && (
          // The suite is another one now: the page is loaded again.
          <a href={`/suites/${encodeURIComponent(suite.id)}?node=${encodeURIComponent(first)}`}>
            Open {first}
          </a>
        )}
      </p>
      {bad.map((call) => (
        <p key={`${call.node} ${call.test}`} class="row">
          <NodeButtons
            nodes={[call.node]}
            state={asState(call.verdict)}
            node={props.node?.id ?? null}
            select={props.select}
          />
          <span class="muted">
            {call.kernel}: {call.message}
          </span>
        </p>
      ))}
    </div>
  );
}
