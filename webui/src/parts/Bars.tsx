import type { Bar } from "../model/charts";
import { grouped, tiny } from "../model/format";

/** A small bar chart in HTML, so that its labels are text. Heights are on a square root scale. */
export function Bars(props: { title: string; bars: readonly Bar[]; labelled?: boolean }) {
  const said = props.bars
    .filter((bar) => bar.count > 0)
    .map((bar) => `${bar.label}: ${grouped(bar.count)}`)
    .join("; ");
  // Labels of many narrow bars would run into each other; each bar still tells its numbers in its title.
  const step = Math.ceil(props.bars.length / 12);
  return (
    <figure class={`bars${props.labelled ? " labelled" : ""}${props.bars.length > 9 ? " dense" : ""}`}>
      {props.labelled && <figcaption>{props.title}</figcaption>}
      <div class="bars-row" role="img" aria-label={`${props.title}. ${said}`}>
        {props.bars.map((bar, number) => (
          <span key={bar.label} class="bar" title={`${bar.label}: ${grouped(bar.count)}`}>
            {props.labelled && (
              <span class="bar-count">
                {bar.count > 0 && (step < 2 || bar.label === "NaN") ? tiny(bar.count) : ""}
              </span>
            )}
            <span class="bar-box">
              <span
                class={bar.label === "NaN" ? "bar-fill bad" : "bar-fill"}
                style={{ height: `${100 * bar.height}%` }}
              />
            </span>
            {props.labelled && (
              <span class="bar-label">{number % step === 0 || bar.label === "NaN" ? bar.label : ""}</span>
            )}
          </span>
        ))}
      </div>
    </figure>
  );
}
