/** The groups of equals among which an operator may choose: what an index element may be beside the expected one. */

const POSITION = 0;

interface Group {
  positions: number[];
  values: Set<number>;
}

type Integers = { readonly [index: number]: number; readonly length: number };

/**
 * Positions, row-major, of elements that differ from the expected ones and yet are right: all elements of their group
 * are among its values, and no two are equal. `rows`: (group, kind, number) one after the other.
 */
export function acceptedTies(rows: Int32Array, got: Integers, expected: Integers): number[] {
  const groups = new Map<number, Group>();
  for (let row = 0; row + 2 < rows.length; row += 3) {
    const id = rows[row] as number;
    const number = rows[row + 2] as number;
    let group = groups.get(id);
    if (!group) {
      group = { positions: [], values: new Set() };
      groups.set(id, group);
    }
    if (rows[row + 1] === POSITION) group.positions.push(number);
    else group.values.add(number);
  }
  const accepted: number[] = [];
  for (const { positions, values } of groups.values()) {
    const chosen = new Set(positions.map((position) => got[position] as number));
    if (chosen.size !== positions.length) continue;
    if (positions.some((position) => !values.has(got[position] as number))) continue;
    for (const position of positions) if (got[position] !== expected[position]) accepted.push(position);
  }
  return accepted;
}
