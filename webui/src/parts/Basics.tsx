/** The small parts every page uses. */

import type { ComponentChildren } from "preact";
import { distrust } from "../model/format";
import { SUSPICIOUS } from "../model/locate";
import { GLYPH, type State, WORD } from "../model/verdicts";
import type { Resource } from "../state/resource";
import { navigate } from "../state/router";

/** A link within the page; a modified click opens a tab as everywhere. */
export function Link(props: { href: string; class?: string; children: ComponentChildren }) {
  const follow = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(props.href);
  };
  return (
    <a href={props.href} class={props.class} onClick={follow}>
      {props.children}
    </a>
  );
}

/** Over tens of tab stops to the parts of a page, by their ids: seen when one comes to it by keys. */
export function SkipLinks(props: { to: readonly { id: string; name: string }[] }) {
  const skip = (event: MouseEvent, id: string) => {
    const part = document.getElementById(id);
    if (part === null) return;
    event.preventDefault();
    part.focus();
    part.scrollIntoView({ block: "nearest" });
  };
  return (
    <nav class="row skip" aria-label="Skip">
      {props.to.map(({ id, name }) => (
        <a key={id} href={`#${id}`} onClick={(event) => skip(event, id)}>
          {name}
        </a>
      ))}
    </nav>
  );
}

export function TopBar(props: { children?: ComponentChildren }) {
  return (
    <header class="topbar">
      <Link href="/" class="brand">
        <Mark /> tapml
      </Link>
      {props.children}
      <a class="runner-link" href="/runner" target="_blank" rel="noopener">
        Use this browser as a device <span aria-hidden="true">↗</span>
      </a>
    </header>
  );
}

function Mark() {
  return (
    <svg width="20" height="20" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" class="mark" />
      <path
        d="M7 10h18M16 10v6M9 22l4 4 10-10"
        fill="none"
        stroke="#fff"
        stroke-width="3"
        stroke-linecap="round"
        stroke-linejoin="round"
      />
    </svg>
  );
}

export function Glyph(props: { state: State }) {
  return (
    <span class={`glyph is-${props.state}`} aria-hidden="true">
      {GLYPH[props.state]}
    </span>
  );
}

/** A verdict as a glyph and a word. */
export function VerdictBadge(props: { state: State; word?: string | undefined }) {
  return (
    <span class={`verdict is-${props.state}`}>
      <span aria-hidden="true">{GLYPH[props.state]}</span> {props.word ?? WORD[props.state]}
    </span>
  );
}

/** As a verdict's, of what passes and is to be looked at all the same. */
export function WarningBadge(props: { word: string }) {
  return (
    <span class="verdict is-warning">
      <span aria-hidden="true">{SUSPICIOUS}</span> {props.word}
    </span>
  );
}

/** A number with its name, in a list of class "numbers". */
export function Fact(props: { name: string; value: string; note?: string }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>
        {props.value} {props.note && <span class="muted">{props.note}</span>}
      </dd>
    </div>
  );
}

/** Why a reference run is not to be believed. */
export function Doubts(props: { what: string; doubts: readonly string[] }) {
  return distrust(props.what, props.doubts).map((line) => (
    <p key={line} class="row problem" role="alert">
      {line}
    </p>
  ));
}

/** A mark of what was done to a kernel by hand. */
export function Edited(props: { title: string; names?: string }) {
  return (
    <span class="verdict is-edited" title={props.title}>
      <span aria-hidden="true">✎ </span>edited{props.names && `: ${props.names}`}
    </span>
  );
}

export function Loading(props: { what: string }) {
  return (
    <p class="loading" role="status">
      <span class="spinner" aria-hidden="true" /> Loading {props.what}…
    </p>
  );
}

export function Problem(props: {
  title: string;
  error: Error | string;
  retry?: () => void;
  dismiss?: () => void;
}) {
  const text = typeof props.error === "string" ? props.error : props.error.message;
  return (
    <div class="row problem" role="alert">
      <p>
        <strong>{props.title}</strong> {text}
      </p>
      {props.retry && (
        <button type="button" onClick={props.retry}>
          Try again
        </button>
      )}
      {props.dismiss && (
        <button type="button" class="quiet" onClick={props.dismiss}>
          Dismiss
        </button>
      )}
    </div>
  );
}

/** What stands where a resource will be: that it is on its way, or why it did not come. */
export function Pending(props: { what: string; of: Resource<unknown> }) {
  const { what, of } = props;
  if (of.error === null) return <Loading what={what} />;
  const title = `${what.charAt(0).toUpperCase()}${what.slice(1)} could not be loaded.`;
  return <Problem title={title} error={of.error} retry={of.reload} />;
}

export function Tabs<T extends string>(props: {
  label: string;
  tabs: readonly { id: T; name: ComponentChildren }[];
  selected: T;
  select: (id: T) => void;
}) {
  const move = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    const at = props.tabs.findIndex((tab) => tab.id === props.selected);
    const next = props.tabs[(at + step + props.tabs.length) % props.tabs.length];
    if (next === undefined) return;
    event.preventDefault();
    props.select(next.id);
    const list = event.currentTarget;
    if (list instanceof HTMLElement) list.querySelector<HTMLElement>(`[data-tab="${next.id}"]`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={props.label} onKeyDown={move}>
      {props.tabs.map((tab) => (
        <button
          type="button"
          role="tab"
          key={tab.id}
          data-tab={tab.id}
          aria-selected={tab.id === props.selected}
          tabIndex={tab.id === props.selected ? 0 : -1}
          onClick={() => props.select(tab.id)}
        >
          {tab.name}
        </button>
      ))}
    </div>
  );
}
