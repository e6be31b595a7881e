/** A text that a suite's model writes, and steps of it that are carved: kept while other tabs are looked at. */

import { useEffect, useReducer, useRef, useState } from "preact/hooks";
import { api, asError } from "../api/client";
import {
  type StepDocument,
  startStep,
  startText,
  type TextDocument,
  type TextEvent,
  type TextJob,
  textJob,
} from "../api/generation";
import { onJobMessage } from "../api/socket";
import { BEGUN, textBefore, type Writing, type WrittenToken, written } from "../model/generation";

/** Without a socket, and where a message was lost. */
const ASK_EVERY = 500;

/** A step that is being carved, or was. */
export interface CarvedStep {
  done: number;
  total: number;
  document: StepDocument | null;
  error: string | null;
}

export interface LiveWriting {
  /** Null where nothing was asked for. */
  writing: Writing | null;
  /** By the position of the step's token. */
  steps: Readonly<Record<number, CarvedStep>>;
  write(body: object): Promise<void>;
  abort(): void;
  carve(token: WrittenToken, device: string): Promise<void>;
}

type Change =
  | { type: "begun" }
  | { type: "events"; events: TextEvent[] }
  | { type: "ended"; job: TextJob }
  | { type: "lost"; error: string }
  | { type: "none" };

function reduce(writing: Writing | null, change: Change): Writing | null {
  if (change.type === "begun") return BEGUN;
  if (change.type === "none" || writing === null) return null;
  if (change.type === "events") return written(writing, change.events);
  if (change.type === "lost") return { ...writing, state: "failed", error: change.error };
  const { state, document, error } = change.job;
  return { ...writing, state, error, document: document as TextDocument | null };
}

export function useWriting(suite: string): LiveWriting {
  const [writing, dispatch] = useReducer(reduce, null);
  const [steps, setSteps] = useState<Record<number, CarvedStep>>({});
  const current = useRef<string | null>(null);

  const follow = async (job: string) => {
    current.current = job;
    setSteps({});
    dispatch({ type: "begun" });
    const mine = () => current.current === job;
    try {
      const ended = await followed(job, mine, (events) => dispatch({ type: "events", events }));
      if (ended !== null && mine()) dispatch({ type: "ended", job: ended });
    } catch (error) {
      if (mine()) dispatch({ type: "lost", error: asError(error).message });
    }
  };

  // A reload shows what the tab had, as long as the server knows it.
  useEffect(() => {
    const job = remembered(suite);
    if (job !== null)
      textJob(job, 0).then(
        () => follow(job),
        () => dispatch({ type: "none" }),
      );
    return () => {
      current.current = null;
    };
  }, [suite]);

  const write = async (body: object) => {
    dispatch({ type: "begun" });
    try {
      const { job } = await startText(suite, body);
      remember(suite, job);
      void follow(job);
    } catch (error) {
      dispatch({ type: "lost", error: asError(error).message });
    }
  };
  const abort = () => {
    if (current.current !== null) api.cancelJob(current.current).catch(() => undefined);
  };
  const carve = async (token: WrittenToken, device: string) => {
    if (writing?.prompt == null) return;
    const own = current.current;
    const set = (change: Partial<CarvedStep>) => {
      if (current.current !== own) return;
      setSteps((old) => ({ ...old, [token.position]: { ...NEW_STEP, ...old[token.position], ...change } }));
    };
    set(NEW_STEP);
    try {
      const ids = textBefore(writing, token);
      const { job } = await startStep(suite, device, ids, writing.prompt.ids.length);
      const ended = await followed(
        job,
        () => true,
        (events) => {
          const last = events.findLast((event) => event.type === "compare");
          if (last !== undefined) set({ done: last.done, total: last.total });
        },
      );
      if (ended?.state === "done") set({ document: ended.document as StepDocument });
      else set({ error: ended?.error ?? "The step was not carved: it was cancelled." });
    } catch (error) {
      set({ error: asError(error).message });
    }
  };
  return { writing, steps, write, abort, carve };
}

const NEW_STEP: CarvedStep = { done: 0, total: 0, document: null, error: null };

/** Asks for a job's events to its end: at once when the socket tells of one. Null where nobody follows any more. */
async function followed(
  job: string,
  wanted: () => boolean,
  take: (events: TextEvent[]) => void,
): Promise<TextJob | null> {
  let wake = () => {};
  let heard = false;
  const stop = onJobMessage((message) => {
    if (message.job !== job) return;
    heard = true;
    wake();
  });
  try {
    for (let after = 0; wanted(); ) {
      heard = false;
      const answer = await textJob(job, after);
      after = answer.next;
      if (!wanted()) return null;
      take(answer.events);
      if (
        answer.state !== "running" &&
        (answer.events.length === 0 || answer.events.at(-1)?.type === "ended")
      )
        return answer;
      if (!heard)
        await new Promise<void>((resolve) => {
          wake = resolve;
          setTimeout(resolve, ASK_EVERY);
        });
    }
    return null;
  } finally {
    stop();
  }
}

function remember(suite: string, job: string): void {
  try {
    sessionStorage.setItem(`tapml.text.${suite}`, job);
  } catch {
    // Only a convenience.
  }
}

function remembered(suite: string): string | null {
  try {
    return sessionStorage.getItem(`tapml.text.${suite}`);
  } catch {
    return null;
  }
}
