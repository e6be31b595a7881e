import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { asError } from "../api/client";

export interface Resource<T> {
  data: T | null;
  error: Error | null;
  loading: boolean;
  reload: () => void;
}

/** Something that a press begins and that may fail: the last failure, and whether it is under way. */
export function useAttempt() {
  const [problem, setProblem] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const attempt = async (work: () => Promise<void>) => {
    setBusy(true);
    setProblem(null);
    await work().catch((error: unknown) => setProblem(asError(error)));
    setBusy(false);
  };
  return { problem, dismiss: () => setProblem(null), busy, attempt };
}

/** Loads again when `key` changes; null loads nothing. The data of another key is never shown. */
export function useResource<T>(key: string | null, load: () => Promise<T>): Resource<T> {
  const [state, setState] = useState<{ key: string | null; data: T | null; error: Error | null }>({
    key: null,
    data: null,
    error: null,
  });
  const [round, setRound] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  // `round` is there to load again.
  useEffect(() => {
    if (key === null) return;
    let stale = false;
    latest.current().then(
      (data) => !stale && setState({ key, data, error: null }),
      (reason: unknown) => {
        const error = asError(reason);
        if (!stale) setState((old) => ({ key, data: old.key === key ? old.data : null, error }));
      },
    );
    return () => {
      stale = true;
    };
  }, [key, round]);
  const reload = useCallback(() => setRound((n) => n + 1), []);
  const own = key !== null && state.key === key;
  const data = own ? state.data : null;
  const error = own ? state.error : null;
  return { data, error, loading: key !== null && data === null && error === null, reload };
}
