/** Scales and labels of the small charts. */

/** Bars of a ULP histogram: 0, 1, 2, 3 to 4, 5 to 8, ...; the last one is "NaN on one side". */
export function ulpLabels(bins: number): string[] {
  return Array.from({ length: bins }, (_, bin) => {
    if (bin === bins - 1 && bins > 1) return "NaN";
    if (bin <= 2) return String(bin);
    // "≤8" is 5 to 8: the bar before it has the smaller ones.
    const to = 2 ** (bin - 1);
    if (to < 1024) return `≤${to}`;
    return to < 2 ** 20 ? `≤${to / 1024}k` : to < 2 ** 30 ? `≤${to / 2 ** 20}M` : `≤${to / 2 ** 30}G`;
  });
}

export interface Bar {
  label: string;
  count: number;
  /** 0 to 1. A lone element among thousands must still be seen, hence the square root scale. */
  height: number;
}

/** Drops the empty bins between the last filled one and NaN, so that the filled ones have room. */
export function ulpBars(histogram: readonly number[]): Bar[] {
  const labels = ulpLabels(histogram.length);
  const nan = histogram.at(-1) ?? 0;
  const finite = histogram.length > 1 ? histogram.slice(0, -1) : [...histogram];
  let filled = finite.length;
  while (filled > 3 && finite[filled - 1] === 0) filled -= 1;
  const bars = finite.slice(0, filled).map((count, bin) => ({ label: labels[bin] ?? "", count }));
  if (nan > 0 && histogram.length > 1) bars.push({ label: "NaN", count: nan });
  return withHeights(bars);
}

export function histogramBars(
  edges: readonly number[],
  counts: readonly number[],
  name: (x: number) => string,
): Bar[] {
  return withHeights(
    counts.map((count, bin) => ({
      count,
      label: `${name(edges[bin] ?? 0)} to ${name(edges[bin + 1] ?? 0)}`,
    })),
  );
}

function withHeights(bars: { label: string; count: number }[]): Bar[] {
  const most = Math.max(1, ...bars.map((bar) => bar.count));
  return bars.map((bar) => ({
    ...bar,
    height: bar.count > 0 ? Math.max(0.04, Math.sqrt(bar.count / most)) : 0,
  }));
}

export interface LogScale {
  /** Exponents of ten shown as grid lines. */
  ticks: number[];
  /** 0 (bottom) to 1 (top). */
  position(value: number): number;
}

/** Decades around all positive values. Zero and below sit on the bottom. */
export function logScale(values: readonly number[]): LogScale {
  const logs = values.filter((value) => value > 0 && Number.isFinite(value)).map(Math.log10);
  let low = logs.length > 0 ? Math.floor(Math.min(...logs)) : -8;
  let high = logs.length > 0 ? Math.ceil(Math.max(...logs)) : 0;
  if (high - low < 2) {
    low -= 1;
    high += 1;
  }
  // An exact zero sits below every measured error, not beside the smallest.
  if (values.some((value) => value === 0)) low -= 1;
  const every = Math.ceil((high - low) / 5);
  const ticks: number[] = [];
  for (let tick = low; tick <= high; tick += every) ticks.push(tick);
  return {
    ticks,
    position: (value) => {
      if (!(value > 0)) return 0;
      return Math.min(1, Math.max(0, (Math.log10(value) - low) / (high - low)));
    },
  };
}
