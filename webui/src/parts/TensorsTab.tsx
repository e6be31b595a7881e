import { useState } from "preact/hooks";
import type { TensorStatistics, TestDetail } from "../api/types";
import { histogramBars } from "../model/charts";
import { exact, grouped, number, percent, tensorType } from "../model/format";
import { type Layer, layerOf } from "../model/layers";
import { fetchTensor } from "../state/outputs";
import { useAttempt } from "../state/resource";
import { Bars } from "./Bars";
import { Problem } from "./Basics";
import { elementSaid, TensorViewer } from "./TensorViewer";

export function TensorsTab(props: { detail: TestDetail }) {
  return (
    <>
      {props.detail.tensors.map((tensor, at) => (
        <TensorCard key={at} tensor={tensor} />
      ))}
    </>
  );
}

function TensorCard(props: { tensor: TensorStatistics }) {
  const { tensor } = props;
  const size = tensor.shape.reduce((product, extent) => product * extent, 1);
  const facts: [string, string][] = [
    ["min", number(tensor.min)],
    ["max", number(tensor.max)],
    ["mean", number(tensor.mean)],
    ["std", number(tensor.std)],
    ["zeros", tensor.zeros > 0 ? percent(tensor.zeros, size) : "0"],
    ["NaN", grouped(tensor.nan)],
    ["Inf", grouped(tensor.inf)],
  ];
  return (
    <article class="stack card tensor">
      <h3>
        <span class={`role role-${tensor.role}`}>{tensor.role}</span> {tensor.name || tensor.value}
      </h3>
      <p class="muted">
        <code>{tensorType(tensor.dtype, tensor.shape)}</code>{" "}
        <a
          href={`/blobs/${encodeURIComponent(tensor.digest)}`}
          download={`${tensor.value}.bin`}
          title={tensor.digest}
        >
          {tensor.digest.slice(0, 12)}
        </a>
      </p>
      <dl class="row numbers">
        {facts.map(([name, value]) => (
          <div key={name} class={(name === "NaN" || name === "Inf") && value !== "0" ? "warn" : ""}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {tensor.histogram && tensor.histogram.counts.length > 0 && (
        <Histogram tensor={tensor} histogram={tensor.histogram} />
      )}
      <Elements tensor={tensor} />
      {tensor.head.length > 0 && (
        <p class="head">
          <code>
            [{tensor.head.map((value) => (typeof value === "number" ? exact(value) : value)).join(", ")}
            {size > tensor.head.length && ", …"}]
          </code>
        </p>
      )}
    </article>
  );
}

/** All of them, when they are asked for. */
function Elements({ tensor }: { tensor: TensorStatistics }) {
  const [layer, setLayer] = useState<Layer | null>(null);
  const { problem, dismiss, busy, attempt } = useAttempt();
  const name = tensor.name || tensor.value;
  const fetch = () => attempt(async () => setLayer(layerOf("tensor", name, await fetchTensor(tensor))));
  if (layer !== null) return <TensorViewer layers={[layer]} said={elementSaid} />;
  return (
    <>
      <p>
        <button type="button" disabled={busy} onClick={fetch} aria-label={`Show every element of ${name}`}>
          {busy ? "Fetching…" : "Show every element"}
        </button>
      </p>
      {problem && <Problem title="" error={problem} dismiss={dismiss} />}
    </>
  );
}

function Histogram(props: { tensor: TensorStatistics; histogram: { edges: number[]; counts: number[] } }) {
  const { edges, counts } = props.histogram;
  return (
    <div class="histogram">
      <Bars
        title={`Values of ${props.tensor.name || props.tensor.value}`}
        bars={histogramBars(edges, counts, number)}
      />
      <p class="ends muted" aria-hidden="true">
        <span>{number(edges[0])}</span>
        <span>{number(edges.at(-1))}</span>
      </p>
    </div>
  );
}
