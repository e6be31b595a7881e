import type { ComponentChildren } from "preact";
import type { Shared } from "./shared";

/** Results that are of one device each: which devices have one, to choose from, and the chosen one's below. */
export function TriedDevices<T>(
  props: Shared & {
    name: string;
    class: string;
    results: Readonly<Record<string, T>>;
    /** Where no device has any. */
    none: string;
    /** What is said before the name of a device that has none. */
    missing: string;
    draw: (result: T, name: string) => ComponentChildren;
  },
) {
  const { devices, device, results } = props;
  const tried = devices.filter((column) => results[column.id] !== undefined);
  if (tried.length === 0) return <p class="hint">{props.none}</p>;
  const result = device === null ? undefined : results[device];
  const name = devices.find((column) => column.id === device)?.name ?? device ?? "";
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
    <section class={`scroll ${props.class}`} tabIndex={0} aria-label={props.name}>
      {(tried.length > 1 || result === undefined) && (
        <p class="row pane-tools">
          {tried.map((column) => (
            <button
              type="button"
              key={column.id}
              aria-pressed={column.id === device}
              onClick={() => props.choose(column.id)}
            >
              {column.name}
            </button>
          ))}
        </p>
      )}
      {result === undefined ? (
        <p class="hint">
          {props.missing} {name} yet.
        </p>
      ) : (
        props.draw(result, name)
      )}
    </section>
  );
}
