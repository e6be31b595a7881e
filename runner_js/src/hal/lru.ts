interface Entry<V> {
  value: V;
  bytes: number;
  pins: number;
}

/**
 * Values by key within a budget of bytes; the least recently used go first. A pinned value is never evicted, so
 * the budget may be exceeded while much is pinned.
 */
export class Lru<V> {
  private readonly entries = new Map<string, Entry<V>>();
  private total = 0;

  constructor(
    private readonly capacity: number,
    private readonly evicted: (value: V, key: string) => void = () => {},
  ) {}

  get bytes(): number {
    return this.total;
  }

  has(key: string): boolean {
    return this.entries.has(key);
  }

  get(key: string): V | undefined {
    const entry = this.entries.get(key);
    if (!entry) return undefined;
    // A Map keeps the order of insertion: moved to the end, the entry is the most recent.
    this.entries.delete(key);
    this.entries.set(key, entry);
    return entry.value;
  }

  set(key: string, value: V, bytes: number): void {
    if (this.entries.has(key)) throw new Error(`${key} is in the cache already`);
    this.entries.set(key, { value, bytes, pins: 0 });
    this.total += bytes;
    this.shrink(key);
  }

  pin(key: string): void {
    const entry = this.entries.get(key);
    if (!entry) throw new Error(`${key} is not in the cache`);
    entry.pins++;
  }

  unpin(key: string): void {
    const entry = this.entries.get(key);
    if (!entry?.pins) throw new Error(`${key} is not pinned`);
    entry.pins--;
    this.shrink();
  }

  /** Evicts one value now, unless it is pinned. */
  discard(key: string): void {
    const entry = this.entries.get(key);
    if (!entry || entry.pins) return;
    this.entries.delete(key);
    this.total -= entry.bytes;
    this.evicted(entry.value, key);
  }

  /** Evicts from the oldest on; `fresh` was just put in by a caller who is about to pin or use it. */
  private shrink(fresh?: string): void {
    if (this.total <= this.capacity) return;
    for (const [key, entry] of this.entries) {
      if (entry.pins || key === fresh) continue;
      this.discard(key);
      if (this.total <= this.capacity) return;
    }
  }
}
