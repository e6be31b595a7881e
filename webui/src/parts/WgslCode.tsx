import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Diagnostic } from "../api/generated/results";
import { tokenizeLines } from "../model/wgsl";

/** WGSL with line numbers; compiler messages under the lines they are about. Text only: Preact escapes it. */
export function WgslCode(props: { text: string; marks: readonly Diagnostic[]; line: number | null }) {
  const lines = useMemo(() => tokenizeLines(props.text), [props.text]);
  const target = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (props.line !== null) target.current?.scrollIntoView({ block: "center" });
  }, [props.line, lines]);
  const marked = new Map<number, Diagnostic[]>();
  for (const item of props.marks) marked.set(item.line, [...(marked.get(item.line) ?? []), item]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
    <section class="wgsl" tabIndex={0} aria-label="WGSL">
      <ol style={{ "--digits": String(lines.length).length }}>
        {lines.map((tokens, at) => {
          const number = at + 1;
          const messages = marked.get(number);
          const classes = `${messages ? `marked is-${messages[0]?.severity}` : ""}${number === props.line ? " shown" : ""}`;
          return (
            <li key={at} class={classes} ref={number === props.line ? target : null}>
              <code>
                {tokens.map((token, position) =>
                  token.kind === "plain" ? (
                    token.text
                  ) : (
                    <span key={position} class={`t-${token.kind}`}>
                      {token.text}
                    </span>
                  ),
                )}
              </code>
              {messages?.map((item) => (
                <p key={`${item.column} ${item.message}`} class="line-message">
                  <strong>{item.severity}</strong> column {item.column}: {item.message}
                </p>
              ))}
            </li>
          );
        })}
      </ol>
    </section>
  );
}
