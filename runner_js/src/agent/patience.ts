/** Asking a service that says when to come back: it is asked again then, and not by all devices at once. */

/** How often one request is made, at most. */
const MOST_TRIES = 5;
/** Milliseconds: who is told to wait longer is not waited for. */
const LONGEST_WAIT = 120_000;
/** Where the service does not say how long; each further one is twice as long. */
const FIRST_WAIT = 1000;
const LATER = [429, 503];

export interface Clock {
  /** Milliseconds, which go on evenly: the time of day may be set meanwhile. */
  now(): number;
  /** Rejects where `signal` is aborted. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
  /** From 0 to 1. */
  random(): number;
}

const CLOCK: Clock = {
  now: () => performance.now(),
  random: () => Math.random(),
  sleep: (milliseconds, signal) =>
    new Promise((resolve, reject) => {
      const ended = () => {
        clearTimeout(timer);
        reject(signal.reason);
      };
      const timer = setTimeout(() => {
        signal.removeEventListener("abort", ended);
        resolve();
      }, milliseconds);
      if (signal.aborted) ended();
      else signal.addEventListener("abort", ended, { once: true });
    }),
};

/**
 * `get`, which waits where the answer is 429, or 503 with `Retry-After`: as long as that says and up to a quarter longer, drawn at random.
 * All its requests wait then, for the limit is theirs together. After 5 answers of that kind, or one that says more than two minutes, the answer is given.
 * An aborted `signal` ends what waits.
 */
export function patient(get: typeof fetch, signal: AbortSignal, clock: Clock = CLOCK): typeof fetch {
  let notBefore = 0;
  return (async (url: string | URL | Request, init?: RequestInit): Promise<Response> => {
    for (let tries = 1; ; tries++) {
      // While one waits, another may have been told to wait longer.
      for (let wait = notBefore - clock.now(); wait > 0; wait = notBefore - clock.now())
        await clock.sleep(wait, signal);
      signal.throwIfAborted();
      const answer = await get(url, init);
      if (!LATER.includes(answer.status)) return answer;
      const told = retryAfter(answer.headers.get("Retry-After"), Date.now());
      if (told === null && answer.status !== 429) return answer;
      const wait = told ?? FIRST_WAIT * 2 ** (tries - 1);
      if (tries === MOST_TRIES || wait > LONGEST_WAIT) return answer;
      await answer.body?.cancel();
      notBefore = Math.max(notBefore, clock.now() + wait * (1 + clock.random() / 4));
    }
  }) as typeof fetch;
}

/** Milliseconds of the header, which has seconds or a date; null where it has neither. `now`: milliseconds since 1970. */
export function retryAfter(text: string | null, now: number): number | null {
  if (text === null) return null;
  if (/^\s*\d{1,9}\s*$/.test(text)) return 1000 * Number(text);
  const at = /GMT\s*$/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}
