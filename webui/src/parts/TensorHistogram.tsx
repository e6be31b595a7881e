/** How the values of a tensor are distributed; a press on a bar goes from one element in it to the next. */

import { useMemo } from "preact/hooks";
import { histogramBars } from "../model/charts";
import { grouped, number } from "../model/format";
import { binOf, histogramOf, type Layer, nextOf, type Summary } from "../model/layers";

export function TensorHistogram(props: {
  layer: Layer;
  summary: Summary;
  flat: number;
  go: (flat: number) => void;
}) {
  const { layer, summary, flat, go } = props;
  const histogram = useMemo(() => histogramOf(layer.values, summary), [layer, summary]);
  const own = binOf(histogram, layer.values[flat] ?? 0);
  const bars = histogramBars(histogram.edges, histogram.counts, number);
  return (
    <figure class="tensor-histogram">
      <fieldset class="bars-row" aria-label={`How ${layer.name} is distributed`}>
        {bars.map((bar, bin) => (
          <button
            key={bar.label}
            type="button"
            class="bar"
            title={`${bar.label}: ${grouped(bar.count)}`}
            aria-label={`${bar.label}: ${grouped(bar.count)}. Go to the next of them`}
            aria-pressed={bin === own}
            disabled={bar.count === 0}
            onClick={() => {
              const next = nextOf(layer.values, flat, (value) => binOf(histogram, value) === bin);
              if (next !== null) go(next);
            }}
          >
            <span class="bar-box">
              <span class="bar-fill" style={{ height: `${100 * bar.height}%` }} />
            </span>
          </button>
        ))}
      </fieldset>
      <p class="ends muted" aria-hidden="true">
        <span>{number(histogram.edges[0])}</span>
        <span>{number(histogram.edges.at(-1))}</span>
      </p>
    </figure>
  );
}
