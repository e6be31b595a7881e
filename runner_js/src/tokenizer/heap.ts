/** A binary heap: the least first. */
export class Heap<T> {
  private readonly items: T[] = [];

  constructor(private readonly order: (a: T, b: T) => number) {}

  push(item: T): void {
    const { items } = this;
    let at = items.push(item) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (!this.before(at, above)) return;
      this.swap(at, above);
      at = above;
    }
  }

  pop(): T | undefined {
    const { items } = this;
    const top = items[0];
    const last = items.pop();
    if (last === undefined || items.length === 0) return top;
    items[0] = last;
    for (let at = 0; ; ) {
      let least = at;
      for (const below of [2 * at + 1, 2 * at + 2]) {
        if (below < items.length && this.before(below, least)) least = below;
      }
      if (least === at) return top;
      this.swap(at, least);
      at = least;
    }
  }

  private before(a: number, b: number): boolean {
    return this.order(this.items[a] as T, this.items[b] as T) < 0;
  }

  private swap(a: number, b: number): void {
    const item = this.items[a] as T;
    this.items[a] = this.items[b] as T;
    this.items[b] = item;
  }
}
