/** A kernel's file in an editor: type, run on all chosen devices, save, see what differs. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, api } from "../api/client";
import type { Diagnostic } from "../api/generated/results";
import type { TextFile } from "../api/types";
import type { Editor } from "../editor/editor";
import { isForeign, isUnsaved } from "../model/drafts";
import { ON_DISK, type Other } from "../model/versions";
import type { Drafts } from "../state/drafts";
import { useAttempt } from "../state/resource";
import { Problem } from "./Basics";
import { FilePath } from "./FilePath";
import type { Rerun } from "./shared";

export function EditPane(props: {
  suite: string;
  kernel: string;
  file: TextFile;
  /** All of the kernel's. */
  all: readonly TextFile[];
  /** What the server would say of the texts that are shown. */
  refused: string | null;
  drafts: Drafts;
  marks: readonly Diagnostic[];
  /** To go to: again, where it is another object. */
  line: { line: number } | null;
  others: readonly Other[];
  /** Which of the kernel's files it is. */
  picker: ComponentChildren;
  /** What came of the text that is shown. */
  tried: ComponentChildren;
  /** How it is launched, to be edited. */
  launch: ComponentChildren;
  rerun: Rerun;
  run: () => void;
  /** Read the kernel's files again. */
  reload: () => void;
  close: () => void;
}) {
  const { suite, kernel, file, drafts, rerun } = props;
  const draft = drafts.of(file);
  const text = draft?.text ?? file.text;
  const [compared, setCompared] = useState("");
  const { problem, dismiss, busy, attempt } = useAttempt();
  // A workgroup's size is in the WGSL and in the document: a kernel's files are saved together.
  const pending = props.all.filter((one) => isUnsaved(drafts.of(one)));
  const elsewhere = props.all.find((one) => one.name !== file.name && isForeign(drafts.of(one), one));
  const foreign = isForeign(draft, file);
  const { others } = props;
  // What is the same text by now stays chosen, and shows no difference.
  const chosen = others.find((other) => other.name === compared);
  const original = compared === "" ? null : (chosen?.text ?? text);

  const save = () =>
    attempt(async () => {
      try {
        for (const one of pending) {
          const own = drafts.of(one);
          if (!isUnsaved(own)) continue;
          const written = await api.writeFile(suite, kernel, one.name, own.text, own.was);
          drafts.set(one, { text: own.text, was: written.digest, saved: true });
          rerun.wrote(kernel, written.kernel);
        }
      } catch (error) {
        // What the other one wrote is shown beside this.
        if (error instanceof ApiError && error.status === 409) props.reload();
        else throw error;
      }
    });
  // Asked for while another run goes on: it begins when that one has ended.
  const wanted = useRef(false);
  const run = () => {
    wanted.current = !rerun.possible;
    if (rerun.possible) props.run();
  };
  useEffect(() => {
    if (rerun.possible && wanted.current) run();
  }, [rerun.possible]);
  return (
    <div class="stack editing">
      {/* Seen wherever one types: what Ctrl-Enter gave, and that somebody else wrote the file. */}
      <div class="stack tight edit-head">
        <div class="row edit-tools">
          {props.picker}
          <button
            type="button"
            class="primary"
            disabled={!rerun.possible}
            title={`Ctrl-Enter: ${pending.length > 0 ? "tries it" : "runs it"} on ${rerun.devices.join(", ")}`}
            onClick={run}
          >
            Run
          </button>
          <button
            type="button"
            disabled={pending.length === 0 || busy || foreign || elsewhere !== undefined}
            title={`Ctrl-S: writes ${pending.map(({ name }) => name).join(", ") || "nothing"}`}
            onClick={save}
          >
            Save
          </button>
          <button
            type="button"
            disabled={pending.length === 0}
            title={pending.map(({ name }) => name).join(", ")}
            onClick={() => {
              for (const one of pending) drafts.set(one, undefined);
            }}
          >
            Discard
          </button>
          <button type="button" onClick={props.close}>
            Close
          </button>
          {(others.length > 0 || compared !== "") && (
            <select
              aria-label="Compare with"
              class="file-picker"
              value={compared}
              onChange={(event) => setCompared(event.currentTarget.value)}
            >
              <option value="">compare with…</option>
              {compared !== "" && chosen === undefined && (
                <option value={compared}>{compared}: the same</option>
              )}
              {others.map(({ name }) => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
            </select>
          )}
          {rerun.devices.length === 0 && <span class="muted">choose a device above</span>}
        </div>
        {props.tried}
        {problem && <Problem title="" error={problem} dismiss={dismiss} />}
        {props.refused !== null && (
          <p class="message is-error" role="alert">
            <span aria-hidden="true">✗ </span>
            {props.refused}
          </p>
        )}
        {elsewhere !== undefined && (
          <p class="message" role="alert">
            <span aria-hidden="true">⚠ </span>
            {elsewhere.name} was written by somebody else since you began: choose it above to compare the two.
          </p>
        )}
        {foreign && (
          <div class="message" role="alert">
            <p>
              <span aria-hidden="true">⚠ </span>
              {file.name} was written by somebody else since you began. Nothing of either is lost yet.
            </p>
            <p class="row">
              <button type="button" onClick={() => setCompared(ON_DISK)}>
                Compare
              </button>
              <button type="button" onClick={() => drafts.set(file, undefined)}>
                Take theirs
              </button>
              <button
                type="button"
                onClick={() => drafts.set(file, { text, was: file.digest, saved: false })}
              >
                Keep mine
              </button>
            </p>
          </div>
        )}
      </div>
      {props.launch}
      <Typed
        key={file.name}
        file={file}
        text={text}
        now={() => drafts.of(file)?.text ?? file.text}
        marks={props.marks}
        line={props.line}
        original={original}
        change={(next) => drafts.type(file, next)}
        run={run}
        save={save}
      />
      <FilePath path={file.path} />
    </div>
  );
}

/** The editor's element; the editor itself is fetched when the first one is shown. */
function Typed(props: {
  file: TextFile;
  /** The draft, or what the file is. */
  text: string;
  /** The same, as of now. */
  now: () => string;
  marks: readonly Diagnostic[];
  line: { line: number } | null;
  original: string | null;
  change: (text: string) => void;
  run: () => void;
  save: () => void;
}) {
  const { file, marks, line, original } = props;
  const place = useRef<HTMLDivElement>(null);
  const [editor, setEditor] = useState<Editor | null>(null);
  const [failed, setFailed] = useState(false);
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    let opened: Editor | null = null;
    let gone = false;
    import("../editor/editor").then(
      ({ openEditor }) => {
        if (gone || place.current === null) return;
        opened = openEditor(
          place.current,
          { name: file.name, text: latest.current.text },
          {
            change: (next) => latest.current.change(next),
            run: () => latest.current.run(),
            save: () => latest.current.save(),
          },
        );
        setEditor(opened);
        opened.focus();
      },
      () => setFailed(true),
    );
    return () => {
      gone = true;
      opened?.close();
    };
  }, [file.name]);
  // A text from elsewhere goes in: the file's when there is no draft (any more), one that the form of launches makes. What is
  // typed is newer than what was drawn of it: it is asked for as of now, which is what the editor has then.
  const { text } = props;
  useEffect(() => editor?.setText(latest.current.now()), [editor, text]);
  const told = JSON.stringify(marks);
  useEffect(() => editor?.mark(marks), [editor, told]);
  useEffect(() => editor?.compare(original), [editor, original]);
  useEffect(() => {
    if (line !== null) editor?.goTo(line.line);
  }, [editor, line]);
  return (
    <>
      {editor === null && (
        <p class="hint">
          {failed ? "The editor could not be loaded: is the server still running?" : "Loading the editor…"}
        </p>
      )}
      <div class="editor" ref={place} />
    </>
  );
}
