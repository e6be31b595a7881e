import type { Bar } from "../model/charts";
import { grouped, tiny } from "../model/format";

/** A small bar chart in HTML, so that its labels are text. Heights are on a square root scale. */
export function Bars(props: { title: string; bars: readonly Bar[]; labelled?: boolean }) {
  const said = props.bars
    .filter((bar) => bar.count > 0)
    .map((bar) => `${bar.label}: ${grouped(bar.count)}`)
    .join("; ");
  return (
    <figure class={`bars${props.labelled ? " labelled" : ""}${props.bars.length > 9 ? " dense" : ""}`}>
      {props.labelled && <figcaption>{props.title}</figcaption>}
      <div class="bars-row" role="img" aria-label={`${props.title}. ${said}`}>
        {props.bars.map((bar) => (
          <span key={bar.label} class="bar" title={`${bar.label}: ${grouped(bar.count)}`}>
            {props.labelled && <span class="bar-count">{bar.count > 0 ? tiny(bar.count) : ""}</span>}
            <span class="bar-box">
              <span
                class={bar.label === "NaN" ? "bar-fill bad" : "bar-fill"}
                style={{ height: `${100 * bar.height}%` }}
              />
            </span>
            {props.labelled && <span class="bar-label">{bar.label}</span>}
          </span>
        ))}
      </div>
    </figure>
  );
}
