/** One suspect kernel: the reason in words, what was found, and each output that is wrong. */

import { useEffect, useState } from "preact/hooks";
import type { FoundPattern, Suspect, WrongOutput } from "../api/generated/results";
import { error, grouped, number, percent, short, tensorType } from "../model/format";
import { timesBound } from "../model/headline";
import { determinism } from "../model/locate";
import { asState, OLDER, WORD } from "../model/verdicts";
import { Edited, Fact, VerdictBadge } from "./Basics";
import { Elements } from "./Elements";
import { HeatMapView } from "./HeatMapView";
import { NodeButtons } from "./NodeButtons";

const FIRST_FINDINGS = 4;

export function SuspectCard(props: {
  suspect: Suspect;
  rank: number;
  /** Of an older text of the kernel. */
  older: boolean;
  /** Now, where that is known. */
  edited: boolean;
  node: string | null;
  /** Of the selected node. */
  kernel: string | null;
  select: (node: string | null) => void;
}) {
  const { suspect, rank, node, select, older } = props;
  const chosen = props.kernel === suspect.kernel;
  const [open, setOpen] = useState(rank === 1 || chosen);
  // Selecting a marked node in the graph shows why it is marked.
  useEffect(() => {
    if (chosen) setOpen(true);
  }, [chosen]);
  const state = asState(suspect.verdict);
  return (
    <article
      class={`stack card locate-card suspect${chosen ? " selected" : ""}${older ? " stale" : ""}`}
      aria-label={suspect.kernel}
    >
      <h2>
        <button type="button" class="row suspect-head" aria-expanded={open} onClick={() => setOpen(!open)}>
          <span class="rank">{rank}</span>
          <span class="suspect-name">{suspect.kernel}</span>
          <VerdictBadge
            state={older ? "stale" : state}
            word={older ? `${WORD[state]}, ${OLDER}` : undefined}
          />
          {props.edited && (
            <Edited title="The WGSL, or how it is launched, differs from what was generated." />
          )}
          <span class="score" title="How certain the accusation is, from 0 to 1">
            <Meter value={suspect.score} />
            {suspect.score.toFixed(2)}
            <span class="sr-only"> of 1 certain</span>
          </span>
          <span class="fold" aria-hidden="true">
            ▸
          </span>
        </button>
      </h2>
      <p class="reason">{suspect.reason}</p>
      {open && (
        <>
          <dl class="row numbers">
            <Fact
              name="tests that fail"
              value={`${grouped(suspect.tests.failed)} of ${grouped(suspect.tests.total)}`}
            />
            <Fact name="run to run" value={determinism(suspect)} />
            <Fact name="clearest test" value={suspect.test} />
          </dl>
          <div class="stack tight">
            <h3>{state === "unbounded" ? "Nodes that are unbounded" : "Nodes that fail"}</h3>
            <NodeButtons
              nodes={suspect.nodes}
              names={suspect.names}
              state={older ? "stale" : state}
              node={node}
              select={select}
            />
            {suspect.passing_nodes.length > 0 && (
              <>
                <h3>Nodes that pass</h3>
                <NodeButtons
                  nodes={suspect.passing_nodes}
                  state={older ? "stale" : "pass"}
                  node={node}
                  select={select}
                />
              </>
            )}
          </div>
          {suspect.verdict !== "error" && <Findings findings={suspect.findings} />}
          {suspect.outputs.map((output) => (
            <Output key={output.output} output={output} several={suspect.outputs.length > 1} />
          ))}
        </>
      )}
    </article>
  );
}

function Meter({ value }: { value: number }) {
  return (
    <span class="meter" aria-hidden="true">
      <span style={{ width: `${Math.round(100 * Math.min(1, Math.max(0, value)))}%` }} />
    </span>
  );
}

function Findings({ findings }: { findings: readonly FoundPattern[] }) {
  if (findings.length === 0) return null;
  const rest = findings.slice(FIRST_FINDINGS);
  return (
    <section>
      <h3>What is true of the wrong elements</h3>
      <FindingList findings={findings.slice(0, FIRST_FINDINGS)} />
      {rest.length > 0 && (
        <details>
          <summary>{rest.length} weaker</summary>
          <FindingList findings={rest} />
        </details>
      )}
    </section>
  );
}

function FindingList({ findings }: { findings: readonly FoundPattern[] }) {
  return (
    <ul class="stack tight findings">
      {findings.map((finding) => (
        <li key={`${finding.pattern} ${finding.text}`}>
          <span class="finding-strength" title="How much of the error this explains, from 0 to 1">
            <Meter value={finding.strength} />
            {finding.strength.toFixed(2)}
          </span>
          <span>
            <strong>{finding.pattern}</strong> {finding.text}
          </span>
        </li>
      ))}
    </ul>
  );
}

function Output({ output, several }: { output: WrongOutput; several: boolean }) {
  const wrong = output.mismatched > 0;
  return (
    <section class="stack wrong-output">
      <h3>
        Output {several && `${output.output}, `}
        <code>{tensorType(output.dtype, output.shape)}</code>
      </h3>
      <dl class="row numbers">
        {wrong && <Fact name="worst element" value={timesBound(Number(output.max_excess))} />}
        <Fact
          name="outside their bound"
          value={`${short(output.mismatched)} of ${short(output.total)}`}
          note={wrong ? percent(output.mismatched, output.total) : ""}
        />
        {output.unbounded > 0 && (
          <Fact name="unbounded" value={short(output.unbounded)} note="WGSL promises nothing for them" />
        )}
        {output.nan > 0 && <Fact name="NaN" value={short(output.nan)} />}
        {output.inf > 0 && <Fact name="Inf" value={short(output.inf)} />}
        {wrong && (
          <Fact
            name="max abs error"
            value={error(output.max_abs_error)}
            note={output.nan + output.inf > 0 ? "of the finite ones" : ""}
          />
        )}
      </dl>
      {wrong && output.shape.length > 0 && <HeatMapView output={output} />}
      <Elements
        rows={[
          { name: "first wrong", element: output.first },
          { name: "worst", element: output.worst },
        ]}
      />
      <section class="bound">
        <h4>What an element may differ by</h4>
        <p>
          <code>{number(output.bound.min, 2)}</code> to <code>{number(output.bound.max, 2)}</code>,{" "}
          <code>{number(output.bound.median, 2)}</code> in the middle. It is made of:
        </p>
        <ul>
          {output.bound.reasons.map((reason) => (
            <li key={reason}>{reason}</li>
          ))}
        </ul>
      </section>
    </section>
  );
}
