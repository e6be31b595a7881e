/** The whole model on the device: how errors grow along the graph, and which few nodes make them. */

import type { ModelCheck } from "../api/generated/results";
import { cosine, count, error, number } from "../model/format";
import { growthPoints, MINIMAL, steepest } from "../model/locate";
import { asState, OLDER } from "../model/verdicts";
import { Fact, VerdictBadge } from "./Basics";
import { GrowthChart } from "./GrowthChart";
import { Table } from "./Table";

const STEEPEST = 8;

export function ModelCheckCard(props: {
  model: ModelCheck;
  /** Of older texts of some kernels. */
  older: boolean;
  node: string | null;
  select: (node: string | null) => void;
}) {
  const { model, node, select, older } = props;
  const points = growthPoints(model.growth, model.minimal_nodes ?? []);
  const minimal = points.filter((point) => point.minimal);
  const steep = steepest(points, STEEPEST);
  return (
    <section class={`stack card locate-card${older ? " stale" : ""}`} aria-label="Whole model">
      <h2>
        Whole model{" "}
        <VerdictBadge
          state={older ? "stale" : asState(model.verdict)}
          word={older ? `${model.verdict}, ${OLDER}` : undefined}
        />
        <span class="muted">{count(model.model_runs, "run")}</span>
      </h2>
      <p class="reason">{model.text}</p>
      {model.metric && (
        <dl class="row numbers">
          <Fact
            name="max error"
            value={error(model.metric.max_abs_error)}
            note={`at most ${error(model.tolerance.max_abs_error)}`}
          />
          <Fact
            name="cosine"
            value={cosine(model.metric.cosine)}
            note={`at least ${cosine(model.tolerance.cosine)}`}
          />
        </dl>
      )}
      {minimal.length > 0 && (
        <div class="stack tight">
          <h3>Computed by the reference, these bring it back</h3>
          <span class="row node-buttons">
            {minimal.map((point) => (
              <button
                type="button"
                key={point.node}
                class="node-button"
                aria-pressed={point.node === node}
                onClick={() => select(point.node)}
              >
                <span class="key-minimal" aria-hidden="true">
                  {MINIMAL}
                </span>{" "}
                {point.node} <span class="muted">{point.kernel}</span>
              </button>
            ))}
          </span>
        </div>
      )}
      <GrowthChart points={points} selected={node} select={select} />
      {model.verdict !== "pass" && steep.length > 0 && (
        <Table
          heads={["grows most at", "times", "error", "of its own"]}
          rows={steep.map((point) => ({
            key: point.node,
            cells: [
              <>
                <button type="button" class="link" onClick={() => select(point.node)}>
                  {point.node}
                </button>{" "}
                {point.kernel}
              </>,
              number(point.amplification, 2),
              error(point.error),
              error(point.local),
            ],
          }))}
        />
      )}
    </section>
  );
}
