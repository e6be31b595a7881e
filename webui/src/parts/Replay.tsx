/** An offload once more on the graph, kernel by kernel: how many were tried is in the address. */

import { useEffect, useState } from "preact/hooks";
import type { OffloadStep } from "../api/generated/results";
import { fate, metricText } from "../model/offload";
import { changeQuery, useQuery } from "../state/router";

/** Slow enough to see which nodes change. */
const STEP_EVERY = 450;

export function Replay(props: { steps: readonly OffloadStep[]; live: boolean }) {
  const { steps } = props;
  const [query] = useQuery("moves");
  const [playing, setPlaying] = useState(false);
  const tried = triedOf(query) ?? steps.length;
  const go = (to: number) => changeQuery({ moves: to >= steps.length ? null : String(to) }, "looking");
  useEffect(() => {
    if (!playing) return;
    if (tried >= steps.length) {
      setPlaying(false);
      return;
    }
    const timer = setTimeout(() => go(tried + 1), STEP_EVERY);
    return () => clearTimeout(timer);
  }, [playing, tried, steps.length]);
  if (props.live || steps.length < 2) return null;
  const last = steps[tried - 1];
  const play = () => {
    if (!playing && tried >= steps.length) go(0);
    setPlaying(!playing);
  };
  return (
    <div class="row replay">
      <button type="button" onClick={play}>
        {playing ? "Pause" : "Play the moves"}
      </button>
      <input
        type="range"
        min={0}
        max={steps.length}
        value={Math.min(tried, steps.length)}
        aria-label="Kernels tried"
        onInput={(event) => {
          setPlaying(false);
          go(event.currentTarget.valueAsNumber);
        }}
      />
      <span role="status">
        {Math.min(tried, steps.length)} of {steps.length}
        {last !== undefined &&
          `: max error ${metricText(last.model_metric).error}, ${last.kernel} ${fate(last)}`}
      </span>
    </div>
  );
}

/** As an address has it; null for all. */
export function triedOf(query: string | null): number | null {
  const found = Number.parseInt(query ?? "", 10);
  return Number.isNaN(found) ? null : Math.max(0, found);
}
