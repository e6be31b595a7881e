/** The same promise; after so many milliseconds whatever `late` gives, or throws, in its place. */
export function within<T>(promise: Promise<T>, milliseconds: number, late: () => T): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds);
  });
  return Promise.race([promise, silence.then(late)]).finally(() => clearTimeout(timer));
}
