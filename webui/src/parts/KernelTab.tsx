import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import type { Diagnostic } from "../api/generated/results";
import type { KernelDetail, TextFile } from "../api/types";
import { isUnsaved } from "../model/drafts";
import { variantOf } from "../model/launch";
import { isReported } from "../model/reported";
import type { ResultsState } from "../model/results";
import { resultsOf } from "../model/texts";
import { digestOf, textsOf, withUnsaved } from "../model/tried";
import { othersOf } from "../model/versions";
import type { Drafts } from "../state/drafts";
import { useResource } from "../state/resource";
import { useCheck } from "../state/use-check";
import { Edited } from "./Basics";
import { EditPane } from "./EditPane";
import type { ShowLine } from "./Evidence";
import { FilePath } from "./FilePath";
import { LaunchForm } from "./LaunchForm";
import { LaunchSection } from "./LaunchSection";
import type { Rerun } from "./shared";
import { TriedVerdicts } from "./TriedVerdicts";
import { WgslCode } from "./WgslCode";

export function KernelTab(props: {
  suite: string;
  detail: KernelDetail;
  /** Read the kernel's files again. */
  reload: () => void;
  state: ResultsState;
  line: { file: string; line: number } | null;
  showLine: ShowLine;
  /** To the tab with the elements that are wrong. */
  showElements: (tests: string[]) => void;
  drafts: Drafts;
  rerun: Rerun;
}) {
  const { detail, line, rerun, drafts } = props;
  const [picked, setPicked] = useState<string | null>(null);
  const name = picked ?? line?.file;
  const variant = variantOf(detail.bundle, name);
  const shown = variant.entry_points.map((entry) => entry.file);
  const own = detail.files.filter((candidate) => shown.includes(candidate.name));
  const files = own.length > 0 ? own : detail.files;
  const file = files.find((candidate) => candidate.name === name) ?? files[0];
  const all = [...detail.files, detail.document];
  const [editing, setEditing] = useState(() => all.some((one) => drafts.of(one) !== undefined));
  const unsaved = drafts.unsaved(all);
  const names = Object.keys(unsaved);
  // What is shown is what runs: once the editor is closed, the files.
  const trying = editing && names.length > 0;
  const texts = textsOf(detail, trying ? unsaved : {});
  const digest = digestOf(props.state, detail.kernel, texts);
  const onDisk = detail.digest ?? "";
  useEffect(() => rerun.know(detail.kernel, textsOf(detail, {}), onDisk), [detail]);
  const refused = useCheck(props.suite, detail.kernel, unsaved);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => setProblem(null), [texts]);
  const edited = picked === detail.document.name ? detail.document : file;
  const diagnostics = diagnosticsOf(props.state, detail.kernel, digest, trying);
  const run = async () => {
    setProblem(null);
    // What runs is what is shown, whoever writes the other files meanwhile.
    const files = withUnsaved(detail, unsaved);
    setProblem(await rerun.start([detail.kernel], trying ? { files, texts } : undefined));
  };
  const tried = (
    <TriedVerdicts
      kernel={detail.kernel}
      state={props.state}
      digest={digest}
      problem={problem}
      showLine={(file, at) => {
        // The file that was picked would hide it.
        setPicked(null);
        props.showLine(file, at);
      }}
      showElements={props.showElements}
    />
  );
  // Read again when a run has ended, or the kernel is another one.
  const round = `${detail.digest} ${props.state.job?.state === "running" ? "" : props.state.job?.job}`;
  const kept = useResource(editing ? `${props.suite} ${detail.kernel} ${round}` : null, () =>
    api.versions(props.suite, detail.kernel),
  );
  const versions = useLast(kept.data?.versions);
  const variants = detail.files.filter((other) => other.name !== edited?.name);
  const others = edited
    ? othersOf(
        edited,
        drafts.of(edited)?.text ?? edited.text,
        edited === detail.document ? [] : variants,
        versions ?? [],
      )
    : [];
  const offered = editing ? [...detail.files, detail.document] : files;
  const picker = (
    <select
      aria-label="File"
      class="file-picker"
      value={edited?.name}
      onChange={(event) => setPicked(event.currentTarget.value)}
    >
      {offered.map((candidate) => (
        <option key={candidate.name} value={candidate.name}>
          {candidate.name}
          {isUnsaved(drafts.of(candidate)) ? " (not saved)" : isEdited(candidate) ? " (edited)" : ""}
          {candidate === detail.document ? ": launches, grid, uniforms" : ""}
        </option>
      ))}
    </select>
  );
  return (
    <>
      {detail.unsupported !== null && (
        <p class="message">
          <span aria-hidden="true">⚠ </span>No WGSL could be made: {detail.unsupported}
        </p>
      )}
      {!editing && (
        <>
          <div class="row">
            <button type="button" class="primary" onClick={() => setEditing(true)}>
              Edit
            </button>
            <button type="button" disabled={!rerun.possible} onClick={run}>
              Run this kernel again
            </button>
            <span class="muted">
              {rerun.devices.length > 0 ? `runs on ${rerun.devices.join(", ")}` : "choose a device above"}, as
              it is on disk now
            </span>
          </div>
          {names.length > 0 && (
            <p class="message row">
              <span>
                <span aria-hidden="true">⚠ </span>
                Not saved: {names.join(", ")}. Below is what is on disk.
              </span>
              <button type="button" onClick={() => setEditing(true)}>
                Edit on
              </button>
              <button
                type="button"
                onClick={() => {
                  for (const one of all) drafts.set(one, undefined);
                }}
              >
                Discard
              </button>
            </p>
          )}
          {tried}
          <LaunchSection
            bundle={detail.bundle}
            variant={variant}
            pick={(other) => setPicked(other.entry_points[0]?.file ?? null)}
          />
        </>
      )}
      {file && edited && (
        <section class={editing ? "file is-editing" : "file"}>
          {editing ? (
            <EditPane
              key={edited.name}
              suite={props.suite}
              kernel={detail.kernel}
              file={edited}
              all={all}
              refused={refused}
              drafts={drafts}
              marks={diagnostics.filter((item) => item.file === edited.name)}
              line={line?.file === edited.name ? line : null}
              others={others}
              picker={picker}
              tried={tried}
              launch={
                <LaunchForm
                  detail={detail}
                  variant={variant.name}
                  drafts={drafts}
                  devices={props.state.devices.filter((device) => !isReported(device))}
                  open={edited === detail.document}
                />
              }
              rerun={rerun}
              run={run}
              reload={props.reload}
              close={() => setEditing(false)}
            />
          ) : (
            <>
              <h3>
                {files.length > 1 ? picker : <code>{file.name}</code>}{" "}
                {file.edited && <Edited title="Differs from what was generated." />}
              </h3>
              <WgslCode
                text={file.text}
                marks={diagnostics.filter((item) => item.file === file.name || detail.files.length === 1)}
                line={line?.file === file.name ? line.line : null}
              />
              <FilePath path={file.path} />
            </>
          )}
        </section>
      )}
    </>
  );
}

/** What there was last, while something newer is on its way. */
function useLast<T>(value: T | undefined): T | undefined {
  const last = useRef(value);
  if (value !== undefined) last.current = value;
  return value ?? last.current;
}

function isEdited(file: TextFile & { edited?: boolean }): boolean {
  return file.edited ?? false;
}

/**
 * Of all devices and nodes, each once: the messages belong to the text, not to the test. They are of the text that is
 * shown; where it never ran, of what the page tried last or the text on disk.
 */
function diagnosticsOf(
  state: ResultsState,
  kernel: string,
  shown: string | undefined,
  trying: boolean,
): Diagnostic[] {
  const last = trying && state.job?.trial ? state.job.digests[kernel] : state.kernels[kernel]?.digest;
  const digest = shown ?? last;
  const found = new Map<string, Diagnostic>();
  for (const { id } of digest ? state.devices : []) {
    for (const test of Object.values(resultsOf(state, id, kernel, digest ?? ""))) {
      for (const item of test.diagnostics)
        found.set(`${item.file}:${item.line}:${item.column}:${item.message}`, item);
    }
  }
  return [...found.values()];
}
