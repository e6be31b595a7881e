/** Routing by path, and what a suite's page shows by its query: every view has an address. */

import { useEffect, useState } from "preact/hooks";

export type Route = { page: "suites" } | { page: "suite"; suite: string } | { page: "unknown"; path: string };

export function routeOf(path: string): Route {
  if (path === "/" || path === "" || path === "/suites" || path === "/suites/") return { page: "suites" };
  const match = /^\/suites\/([^/]+)/.exec(path);
  if (match?.[1] === undefined) return { page: "unknown", path };
  try {
    return { page: "suite", suite: decodeURIComponent(match[1]) };
  } catch {
    return { page: "unknown", path };
  }
}

export function suitePath(suite: string, query: Record<string, string> = {}): string {
  const search = new URLSearchParams(query).toString();
  return `/suites/${encodeURIComponent(suite)}${search === "" ? "" : `?${search}`}`;
}

const CHANGED = "tapml:navigate";

export function navigate(href: string): void {
  history.pushState(null, "", href);
  dispatchEvent(new Event(CHANGED));
}

export function useRoute(): Route {
  const [path, setPath] = useState(location.pathname);
  useEffect(() => {
    const update = () => setPath(location.pathname);
    addEventListener("popstate", update);
    addEventListener(CHANGED, update);
    return () => {
      removeEventListener("popstate", update);
      removeEventListener(CHANGED, update);
    };
  }, []);
  return routeOf(path);
}

/** Part of the query as state. Changes replace the address: looking around does not fill the history. */
export function useQuery(name: string): [string | null, (value: string | null) => void] {
  const read = () => new URLSearchParams(location.search).get(name);
  const [value, setValue] = useState(read);
  useEffect(() => {
    const update = () => setValue(read());
    addEventListener("popstate", update);
    return () => removeEventListener("popstate", update);
  }, [name]);
  const set = (next: string | null) => {
    const query = new URLSearchParams(location.search);
    if (next === null) query.delete(name);
    else query.set(name, next);
    const search = query.toString();
    history.replaceState(null, "", `${location.pathname}${search === "" ? "" : `?${search}`}`);
    setValue(next);
  };
  return [value, set];
}
