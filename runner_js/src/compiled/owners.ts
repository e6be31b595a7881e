/**
 * Whose bytes they are: which tensors hold what was written into them, at a point of a host program. Tensors that share
 * bytes overwrite each other; a view is its tensor. What holds is disjoint at all times.
 */

/** The most bytes that a tensor has: `begin` up to `end` of a buffer. `root`: the tensor that its views show. */
export interface Region {
  kind: string;
  number: number;
  begin: number;
  end: number;
  root: number;
}

export const bufferOf = ({ kind, number }: Region) => `${kind} ${number}`;

export class Owners {
  #buffers = new Map<string, Region[]>();
  #roots = new Set<number>();

  /** A copy, which goes its own way. */
  copy(): Owners {
    const found = new Owners();
    for (const [buffer, regions] of this.#buffers) found.#buffers.set(buffer, [...regions]);
    found.#roots = new Set(this.#roots);
    return found;
  }

  holds(region: Region): boolean {
    return this.#roots.has(region.root);
  }

  /** It holds what was written, and nothing else in its bytes holds any more. */
  write(region: Region): void {
    this.#replace(region, [region]);
    this.#roots.add(region.root);
  }

  /** Nothing in its bytes holds any more. */
  destroy(region: Region): void {
    this.#replace(region, []);
  }

  /** Only what holds in both. */
  keep(other: Owners): void {
    this.#roots = new Set([...this.#roots].filter((root) => other.#roots.has(root)));
    for (const [buffer, found] of this.#buffers)
      this.#buffers.set(
        buffer,
        found.filter(({ root }) => this.#roots.has(root)),
      );
  }

  /** What holds in the other, and nothing else. */
  take(other: Owners): void {
    this.#buffers = other.#buffers;
    this.#roots = other.#roots;
  }

  #replace(region: Region, by: Region[]): void {
    const buffer = bufferOf(region);
    const found = this.#buffers.get(buffer) ?? [];
    this.#buffers.set(buffer, found);
    let [first, end] = [0, found.length];
    while (first < end) {
      const middle = (first + end) >>> 1;
      if ((found[middle]?.end ?? 0) > region.begin) end = middle;
      else first = middle + 1;
    }
    let last = first;
    for (let at = found[last]; at && at.begin < region.end; at = found[++last]) this.#roots.delete(at.root);
    found.splice(first, last - first, ...by);
  }
}
