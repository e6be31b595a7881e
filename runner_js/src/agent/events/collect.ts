import type { Kind, PageEvent } from "./event";
import type { EventProcessor, Storage } from "./processor";

export interface CollectOptions {
  /** The page's id. */
  page: string;
  /** Where state outlives the page; without one it begins anew. */
  storage?: Storage;
  /** The page decides what tasks may see: another event in its place, or null for none. */
  allow?: (event: PageEvent) => PageEvent | null;
}

/** Between two scroll events. */
const SCROLL_MILLISECONDS = 200;
/** An element was exposed when so much of it was in view, or so much of the window was it. */
const EXPOSED = 0.5;
/** Of the windows that are over while nothing happens. */
const TICK_MILLISECONDS = 1_000;

/**
 * Tells `processor` of what happens on this page until it is stopped: enter, scroll, click anywhere, exit, and the
 * exposure of elements that have `data-tapml-id`, of later ones too. An element's `data-tapml-id` is the id of its
 * clicks and exposures, and `data-tapml-contents`, a JSON object, what is told of it. Nothing is read of what a user
 * writes. Give it triggers and streams first: state of the page before is taken up now.
 */
export function collect(processor: EventProcessor, options: CollectOptions): () => void {
  const { page, storage, allow = (event) => event } = options;
  const end = new AbortController();
  const listen = { signal: end.signal, passive: true };
  let inside = false;

  const tell = (kind: Kind, id: string, contents: PageEvent["contents"]) => {
    const allowed = allow({ kind, id, page, time: Date.now(), contents });
    if (allowed !== null) processor.add(allowed);
  };
  const enter = () => {
    if (!inside) tell("enter", "enter", {});
    inside = true;
  };
  const exit = () => {
    if (inside) tell("exit", "exit", {});
    inside = false;
    if (storage !== undefined) processor.save(storage);
  };

  if (storage !== undefined) processor.load(storage);
  enter();
  // A page that comes back from the browser's cache is entered again; it was saved, for it may not come back.
  window.addEventListener("pageshow", enter, listen);
  window.addEventListener("pagehide", exit, listen);
  document.addEventListener(
    "visibilitychange",
    () => {
      if (document.visibilityState === "hidden" && storage !== undefined) processor.save(storage);
    },
    listen,
  );
  document.addEventListener(
    "click",
    (event) => {
      const element = (event.target as Element | null)?.closest?.("[data-tapml-id]") ?? null;
      tell("click", named(element) ?? "click", contentsOf(element));
    },
    { ...listen, capture: true },
  );

  let scrolled: ReturnType<typeof setTimeout> | undefined;
  window.addEventListener(
    "scroll",
    () => {
      scrolled ??= setTimeout(() => {
        scrolled = undefined;
        tell("scroll", "scroll", { x: Math.round(window.scrollX), y: Math.round(window.scrollY) });
      }, SCROLL_MILLISECONDS);
    },
    listen,
  );

  const stopExposures = exposures((element) =>
    tell("exposure", named(element) ?? "exposure", contentsOf(element)),
  );
  const tick = setInterval(() => processor.advance(Date.now()), TICK_MILLISECONDS);
  return () => {
    exit();
    end.abort();
    clearTimeout(scrolled);
    clearInterval(tick);
    stopExposures();
  };
}

/** Each time an element with an id comes into view. */
function exposures(exposed: (element: Element) => void): () => void {
  const visible = new WeakSet<Element>();
  const inView = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting, intersectionRatio, intersectionRect, rootBounds } of entries) {
        const covers = rootBounds !== null && intersectionRect.height >= EXPOSED * rootBounds.height;
        if (!isIntersecting) visible.delete(target);
        else if (!visible.has(target) && (intersectionRatio >= EXPOSED || covers)) {
          visible.add(target);
          exposed(target);
        }
      }
    },
    // Elements larger than the window never reach a half of themselves.
    { threshold: [0, 0.1, 0.2, 0.3, 0.4, EXPOSED] },
  );
  const observe = (root: Element) => {
    if (root.matches("[data-tapml-id]")) inView.observe(root);
    for (const element of root.querySelectorAll("[data-tapml-id]")) inView.observe(element);
  };
  observe(document.documentElement);
  const added = new MutationObserver((records) => {
    for (const { addedNodes } of records)
      for (const node of addedNodes) if (node instanceof Element) observe(node);
  });
  added.observe(document.documentElement, { childList: true, subtree: true });
  return () => {
    added.disconnect();
    inView.disconnect();
  };
}

function named(element: Element | null): string | undefined {
  return element?.getAttribute("data-tapml-id") || undefined;
}

/** Empty where the page wrote none, or no JSON object. */
function contentsOf(element: Element | null): Record<string, unknown> {
  try {
    const found: unknown = JSON.parse(element?.getAttribute("data-tapml-contents") ?? "{}");
    return typeof found === "object" && found !== null && !Array.isArray(found) ? { ...found } : {};
  } catch {
    return {};
  }
}
