/** A suite's results: the saved ones at once, then whatever its jobs say, live. */

import { useEffect, useReducer, useRef, useState } from "preact/hooks";
import { api, asError } from "../api/client";
import { JobFeed } from "../api/feed";
import { onConnection, onJobMessage, onKernelsChanged } from "../api/socket";
import type { JobEvent, JobKind, KernelNow } from "../api/types";
import { type Asked, EMPTY, type ResultsState, reduce } from "../model/results";

/** Texts in the place of those on disk. */
export interface Tried {
  /** By name. */
  files: Record<string, string>;
  /** All of the kernel's, as one (model/tried.ts). */
  texts: string;
}

export interface LiveResults {
  state: ResultsState;
  /** False until the saved results have come (or failed to). */
  loaded: boolean;
  live: boolean;
  problem: string | null;
  dismiss(): void;
  reload(): void;
  /** Gives what went wrong, which is `problem` then, but where texts were tried. */
  start(kind: JobKind, devices: string[], kernels: string[] | null, tried?: Tried): Promise<string | null>;
  /** Which digest a kernel has with these texts (model/tried.ts). */
  know(kernel: string, texts: string, digest: string): void;
  /** What the page itself has written: the server's word may come later. */
  wrote(kernel: string, now: KernelNow): void;
  cancel(): Promise<void>;
}

/** Hundreds of verdicts a second are drawn in a few frames. A timer, because a hidden tab has no frames. */
const FLUSH_EVERY = 50;
const POLL_EVERY = 700;

export function useResults(suite: string): LiveResults {
  const [state, dispatch] = useReducer(reduce, EMPTY);
  const [loaded, setLoaded] = useState(false);
  const [live, setLive] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const feed = useRef<JobFeed | null>(null);
  const starting = useRef(false);
  const say = (error: unknown) => setProblem(asError(error).message);

  const load = () => {
    api
      .results(suite)
      .then((results) => dispatch({ type: "saved", results }), say)
      .finally(() => setLoaded(true));
  };

  // Everything here belongs to one suite.
  useEffect(() => {
    let queue: JobEvent[] = [];
    let timer: ReturnType<typeof setTimeout> | null = null;
    let lost = false;
    const flush = () => {
      if (timer !== null) clearTimeout(timer);
      timer = null;
      if (queue.length > 0) dispatch({ type: "events", events: queue });
      queue = [];
    };
    const own = new JobFeed(
      { suite, fetchJob: api.job, pollEvery: POLL_EVERY },
      {
        job: (job) => {
          flush();
          dispatch({ type: "job", job });
        },
        events: (events) => {
          queue.push(...events);
          timer ??= setTimeout(flush, FLUSH_EVERY);
        },
        ended: (job) => {
          flush();
          dispatch({ type: "ended", job });
        },
        problem: (error, gone) => (gone ? dispatch({ type: "gone" }) : say(error)),
      },
    );
    feed.current = own;
    const undo = [
      // While a start is on its way the job's kernels are not known yet: the feed asks for those events by HTTP after.
      onJobMessage((message) => !starting.current && own.receive(message)),
      onKernelsChanged((message) => {
        if (message.suite !== suite) return;
        flush();
        dispatch({ type: "kernels", kernels: message.kernels });
      }),
      onConnection((connected) => {
        setLive(connected);
        if (connected) setProblem(null);
        // What was edited meanwhile nobody told.
        if (connected && lost) load();
        lost = !connected;
        own.setConnected(connected);
      }),
    ];
    load();
    rejoin(suite, ({ job, ...asked }) => {
      dispatch({ type: "asked", job, asked });
      own.follow(job);
    });
    return () => {
      for (const stop of undo) stop();
      own.close();
      if (timer !== null) clearTimeout(timer);
    };
  }, [suite]);

  const start = async (kind: JobKind, devices: string[], kernels: string[] | null, tried?: Tried) => {
    starting.current = true;
    setProblem(null);
    try {
      const { job } = await api.startJob(kind, suite, devices, kernels, tried?.files);
      const asked = { kernels, trial: tried !== undefined, texts: tried?.texts };
      dispatch({ type: "asked", job, asked });
      remember(suite, { job, ...asked });
      feed.current?.follow(job);
      return null;
    } catch (error) {
      // What is tried says it beside the text.
      if (tried === undefined) say(error);
      return asError(error).message;
    } finally {
      starting.current = false;
    }
  };
  const cancel = async () => {
    if (state.job !== null) await api.cancelJob(state.job.job).catch(say);
  };
  const wrote = (kernel: string, now: KernelNow) => dispatch({ type: "kernels", kernels: { [kernel]: now } });
  const know = (kernel: string, texts: string, digest: string) =>
    dispatch({ type: "known", kernel, texts, digest });
  const dismiss = () => setProblem(null);
  return { state, loaded, live, problem, dismiss, reload: load, start, know, wrote, cancel };
}

type Remembered = Asked & { job: string };

/** The contract lists no running jobs, so the tab remembers its own across a reload. */
function remember(suite: string, asked: Remembered): void {
  try {
    sessionStorage.setItem(`tapml.job.${suite}`, JSON.stringify(asked));
  } catch {
    // Storage may be forbidden; then a reload shows the saved results only.
  }
}

function rejoin(suite: string, follow: (asked: Remembered) => void): void {
  let asked: Remembered | null = null;
  try {
    asked = JSON.parse(sessionStorage.getItem(`tapml.job.${suite}`) ?? "null");
  } catch {
    return;
  }
  if (typeof asked?.job !== "string") return;
  const own = asked;
  api.job(own.job, 0).then(
    (answer) => answer.state === "running" && answer.suite === suite && follow(own),
    () => undefined,
  );
}
