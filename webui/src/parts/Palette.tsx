/** Ctrl-K: a dialog with a combobox over everything that the page can turn to. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Entry, findEntries } from "../model/palette";

export function Palette(props: { entries: () => Entry[] }) {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey) return;
      event.preventDefault();
      setOpen(true);
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  return (
    <>
      <button type="button" class="palette-button" onClick={() => setOpen(true)}>
        Go to… <kbd>Ctrl K</kbd>
      </button>
      {open && <Dialog entries={props.entries()} close={() => setOpen(false)} />}
    </>
  );
}

function Dialog(props: { entries: Entry[]; close: () => void }) {
  const { close } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const entries = useMemo(() => props.entries, []);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const found = useMemo(() => findEntries(entries, text), [entries, text]);
  useEffect(() => dialog.current?.showModal(), []);
  useEffect(() => {
    dialog.current?.querySelector("[aria-selected='true']")?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const take = (entry: Entry | undefined) => {
    if (entry === undefined) return;
    dialog.current?.close();
    entry.run();
  };
  const keys = (event: KeyboardEvent) => {
    // Escape closes the dialog, and not what is behind it.
    if (event.key === "Escape") event.stopPropagation();
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (event.key === "Enter") take(found[at]);
    else if (by === 0 || found.length === 0) return;
    else setAt((at + by + found.length) % found.length);
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} class="palette" aria-label="Go to" onClose={close}>
      <input
        type="text"
        role="combobox"
        aria-label="Nodes, kernels, tests, devices, actions"
        aria-expanded={found.length > 0}
        aria-controls="palette-list"
        aria-autocomplete="list"
        aria-activedescendant={found.length > 0 ? `palette-${at}` : undefined}
        placeholder="Nodes, kernels, tests, devices, actions"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={keys}
      />
      <div id="palette-list" role="listbox" aria-label="Found">
        {found.map((entry, place) => (
          // biome-ignore lint/a11y: the combobox has the focus, and its keys
          <div
            key={`${entry.kind} ${entry.name}`}
            id={`palette-${place}`}
            role="option"
            aria-selected={place === at}
            onClick={() => take(entry)}
          >
            <span class="muted palette-kind">{entry.kind}</span> {entry.name}{" "}
            <span class="muted">{entry.note}</span>
          </div>
        ))}
      </div>
      {found.length === 0 && <p class="hint">Nothing is called that.</p>}
    </dialog>
  );
}
