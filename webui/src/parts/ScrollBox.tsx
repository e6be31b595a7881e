import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

/** A box whose style lets it scroll: where what is in it is larger, it is a tab stop, to be scrolled by keys. */
export function ScrollBox(props: { class: string; label: string; children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const [scrolls, setScrolls] = useState(false);
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const look = new ResizeObserver(() =>
      setScrolls(element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight),
    );
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
