/** A new one each time: who listens to one that lives on stays with it. */
export const never = () => new AbortController().signal;

/** All of what `start` starts; where one fails, or `signal` is aborted, the others are told by their signal. */
export async function together<T>(
  signal: AbortSignal,
  start: (signal: AbortSignal) => readonly Promise<T>[],
): Promise<T[]> {
  signal.throwIfAborted();
  const stop = new AbortController();
  const abort = () => stop.abort(signal.reason);
  signal.addEventListener("abort", abort);
  try {
    return await Promise.all(start(stop.signal));
  } catch (cause) {
    stop.abort(cause);
    throw cause;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** Settles when `promise` does, however that ends; rejects when nobody waits any more. */
export async function settled(promise: Promise<unknown>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort);
    const done = () => {
      signal.removeEventListener("abort", abort);
      resolve();
    };
    promise.then(done, done);
  });
}
