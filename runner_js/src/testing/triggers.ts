/** A matcher of triggers that is plainly right: each trigger against each end of the sequence, anew for every event. */

export interface Ids {
  id: string;
  page: string;
}

/** Whether `sequence` is matched by events that end with the last one. */
export function completes(sequence: readonly string[], events: readonly Ids[]): boolean {
  const last = sequence.at(-1);
  if (last === undefined) return true;
  const before = sequence.slice(0, -1);
  if (last === "**") {
    for (let count = 0; count <= events.length; count++) {
      if (completes(before, events.slice(0, events.length - count))) return true;
    }
    return false;
  }
  const event = events.at(-1);
  if (event === undefined || (last !== "*" && last !== event.id && last !== event.page)) return false;
  return completes(before, events.slice(0, -1));
}

/** Small random numbers, the same for the same seed (a linear congruential generator; its high bits). */
export function drawer(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** A trigger of one to `most` ids, wildcards among them. */
export function drawnTrigger(
  draw: (below: number) => number,
  ids: readonly string[],
  most: number,
): string[] {
  const sequence = Array.from({ length: 1 + draw(most) }, () => {
    const kind = draw(8);
    return kind === 0 ? "*" : kind === 1 ? "**" : (ids[draw(ids.length)] ?? "*");
  });
  if (sequence[0] === "**") sequence[0] = "*";
  if (sequence.at(-1) === "**") sequence[sequence.length - 1] = "*";
  return sequence;
}
