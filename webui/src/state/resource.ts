import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { asError } from "../api/client";

export interface Resource<T> {
  data: T | null;
  error: Error | null;
  loading: boolean;
  reload: () => void;
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
