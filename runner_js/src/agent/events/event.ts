/** What happens on a page, as tasks see it. */

export const KINDS = ["enter", "scroll", "exposure", "click", "exit"] as const;

export type Kind = (typeof KINDS)[number];

export interface PageEvent {
  readonly kind: Kind;
  /** What it is: the name that the page gave it, else its kind. */
  readonly id: string;
  /** Of the page that it happened on. */
  readonly page: string;
  /** Milliseconds since 1970. */
  readonly time: number;
  /** What the page tells of it: the item that was exposed, how far it was scrolled. JSON. */
  readonly contents: Readonly<Record<string, unknown>>;
}

/** Of a trigger: any one event. */
export const ANY = "*";

/** Any number of events, none among them. */
export const ANY_NUMBER = "**";

const MOST_CHARACTERS = 128;

/** Whether `id` may name an event, a page or a task's trigger: not empty, not a wildcard, at most 128 characters. */
export function isId(id: unknown): id is string {
  return typeof id === "string" && id !== "" && id.length <= MOST_CHARACTERS && !/^\*+$/.test(id);
}

/** Whether something that was kept, or sent by another thread, is an event. */
export function isEvent(found: unknown): found is PageEvent {
  if (typeof found !== "object" || found === null) return false;
  const event = found as Record<string, unknown>;
  const { contents } = event;
  return (
    (KINDS as readonly unknown[]).includes(event.kind) &&
    isId(event.id) &&
    isId(event.page) &&
    Number.isFinite(event.time) &&
    typeof contents === "object" &&
    contents !== null &&
    !Array.isArray(contents)
  );
}
