/** Routing by path, and what a suite's page shows by its query: every view has an address. */

import { useEffect, useState } from "preact/hooks";

export type Route = { page: "suites" } | { page: "suite"; suite: string } | { page: "unknown"; path: string };

export function routeOf(path: string): Route {
  if (path === "/" || path === "" || path === "/suites" || path === "/suites/") return { page: "suites" };
  const match = /^\/suites\/([^/]+)\/?$/.exec(path);
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

/**
 * How a change of the query gets into the history: a "step" is one that Back undoes (what is selected, which tab), what is
 * "typed" one step from the first letter to the last, and "looking" (pan, zoom, folds) none: the address follows.
 */
export type Way = "step" | "typed" | "looking";

/** Several parts of the query at once, null to leave one out. One step, however many they are; none where nothing changes. */
export function changeQuery(changes: Readonly<Record<string, string | null>>, way: Way = "step"): void {
  const search = changed(location.search, changes);
  if (search === location.search) return;
  // Of what is typed the entry knows the field: the next letter belongs to the same step.
  const field = way === "typed" ? Object.keys(changes).join() : null;
  const href = `${location.pathname}${search}${location.hash}`;
  if (way === "looking") history.replaceState(history.state, "", href);
  else if (field !== null && typedField(history.state) === field)
    history.replaceState(history.state, "", href);
  else history.pushState(field === null ? null : { typed: field }, "", href);
  dispatchEvent(new Event(CHANGED));
}

/** `search` and the result as location has them: "" or with their "?". */
export function changed(search: string, changes: Readonly<Record<string, string | null>>): string {
  const query = new URLSearchParams(search);
  const before = query.toString();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) query.delete(name);
    else query.set(name, value);
  }
  const after = query.toString();
  return after === before ? search : after === "" ? "" : `?${after}`;
}

function typedField(state: unknown): unknown {
  return typeof state === "object" && state !== null && "typed" in state ? state.typed : null;
}

/** Part of the query as state. */
export function useQuery(name: string, way: Way = "step"): [string | null, (value: string | null) => void] {
  const read = () => new URLSearchParams(location.search).get(name);
  const [value, setValue] = useState(read);
  useEffect(() => {
    const update = () => setValue(read());
    update();
    addEventListener("popstate", update);
    addEventListener(CHANGED, update);
    return () => {
      removeEventListener("popstate", update);
      removeEventListener(CHANGED, update);
    };
  }, [name]);
  return [value, (next) => changeQuery({ [name]: next }, way)];
}
