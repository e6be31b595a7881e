/** Starts up to `ahead` loads before the first is asked for; loads are asked for in order, each once. */
export function loadAhead<T, R>(
  items: readonly T[],
  load: (item: T) => Promise<R>,
  ahead = 8,
): () => Promise<R> {
  const started: Promise<R>[] = [];
  let next = 0;
  const start = () => {
    const item = items[next++];
    if (item === undefined) return;
    const loading = load(item);
    // It may fail long before it is asked for.
    loading.catch(() => {});
    started.push(loading);
  };
  for (let i = 0; i < ahead; i++) start();
  return () => {
    const first = started.shift();
    if (!first) return Promise.reject(new Error("nothing is left to load"));
    start();
    return first;
  };
}
