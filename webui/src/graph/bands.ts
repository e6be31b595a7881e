/**
 * Large graphs are laid out in bands, from top to bottom, each by itself: dagre's time grows faster than the graph,
 * and its recursion overflows a worker's stack at some thousand ranks.
 */

export interface Link {
  from: string;
  to: string;
}

/** Nodes a band has at most, unless a single rank has more. */
export const BAND = 250;

/** Longest path from the inputs. `ids` come in topological order. What reads nothing sits just above its first reader. */
export function ranks(ids: readonly string[], links: readonly Link[]): Map<string, number> {
  const into = grouped(links, "to");
  const rank = new Map<string, number>();
  for (const id of ids) {
    rank.set(id, Math.max(0, ...(into.get(id) ?? []).map(({ from }) => (rank.get(from) ?? 0) + 1)));
  }
  const out = grouped(links, "from");
  for (const id of ids) {
    const readers = out.get(id);
    if (into.has(id) || readers === undefined) continue;
    rank.set(id, Math.max(0, Math.min(...readers.map(({ to }) => rank.get(to) ?? 0)) - 1));
  }
  return rank;
}

function grouped(links: readonly Link[], by: "from" | "to"): Map<string, Link[]> {
  const groups = new Map<string, Link[]>();
  for (const link of links) {
    const group = groups.get(link[by]);
    if (group === undefined) groups.set(link[by], [link]);
    else group.push(link);
  }
  return groups;
}

/** The first rank of each band. Cuts are made where the fewest links cross: between layers, not through attention. */
export function bandStarts(rank: ReadonlyMap<string, number>, links: readonly Link[], most = BAND): number[] {
  const deepest = Math.max(0, ...rank.values());
  const sizes = new Array<number>(deepest + 1).fill(0);
  for (const at of rank.values()) sizes[at] = (sizes[at] ?? 0) + 1;
  const crossing = crossings(rank, links, deepest);
  const starts = [0];
  for (;;) {
    const start = starts.at(-1) ?? 0;
    let filled = 0;
    let end = start;
    while (end <= deepest && (end === start || filled + (sizes[end] ?? 0) <= most)) {
      filled += sizes[end] ?? 0;
      end += 1;
    }
    if (end > deepest) return starts;
    let best = end;
    for (let cut = end; cut > start + Math.ceil((end - start) / 2); cut -= 1) {
      if ((crossing[cut] ?? 0) < (crossing[best] ?? 0)) best = cut;
    }
    starts.push(best);
  }
}

/** At each rank: links that come from above it and end in it or below. */
function crossings(rank: ReadonlyMap<string, number>, links: readonly Link[], deepest: number): number[] {
  const change = new Array<number>(deepest + 2).fill(0);
  for (const { from, to } of links) {
    const [first, last] = [(rank.get(from) ?? 0) + 1, rank.get(to) ?? 0];
    if (first > last) continue;
    change[first] = (change[first] ?? 0) + 1;
    change[last + 1] = (change[last + 1] ?? 0) - 1;
  }
  let open = 0;
  return change.map((by) => {
    open += by;
    return open;
  });
}
