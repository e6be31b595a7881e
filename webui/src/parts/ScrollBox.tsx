import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/**
 * A box whose style lets it scroll: where what is in it is larger, it is a tab stop, to be scrolled by keys.
 *
 * Asked at once whenever it is rendered, for on a busy machine the first frame, and with it the observer's
 * first call, comes late; the observer sees what changes without that (a narrower window, a part that opens).
 */
export function ScrollBox(props: { class: string; label: string; children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const [scrolls, setScrolls] = useState(false);
  const ask = () => {
    if (box.current !== null) setScrolls(isLarger(box.current));
  };
  useLayoutEffect(ask);
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const look = new ResizeObserver(ask);
    for (const part of [element, ...element.children]) look.observe(part);
    return () => look.disconnect();
  }, []);
  const stop = scrolls ? { tabIndex: 0, role: "region" as const, "aria-label": props.label } : {};
  return (
    <div class={props.class} ref={box} {...stop}>
      {props.children}
    </div>
  );
}

function isLarger(box: HTMLElement): boolean {
  return box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight;
}
