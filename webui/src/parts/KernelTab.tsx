import { useState } from "preact/hooks";
import type { Diagnostic } from "../api/generated/results";
import type { KernelDetail } from "../api/types";
import { variantOf } from "../model/launch";
import type { ResultsState } from "../model/results";
import { Edited } from "./Basics";
import { LaunchSection } from "./LaunchSection";
import { WgslCode } from "./WgslCode";

export function KernelTab(props: {
  detail: KernelDetail;
  state: ResultsState;
  line: { file: string; line: number } | null;
  rerun: { devices: string[]; possible: boolean; start: () => void };
}) {
  const { detail, line, rerun } = props;
  const [picked, setPicked] = useState<string | null>(null);
  const name = picked ?? line?.file;
  const variant = variantOf(detail.bundle, name);
  const names = variant.entry_points.map((entry) => entry.file);
  const own = detail.files.filter((candidate) => names.includes(candidate.name));
  const files = own.length > 0 ? own : detail.files;
  const file = files.find((candidate) => candidate.name === name) ?? files[0];
  const diagnostics = diagnosticsOf(props.state, detail.kernel);
  return (
    <>
      {detail.unsupported !== null && (
        <p class="message">
          <span aria-hidden="true">⚠ </span>No WGSL could be made: {detail.unsupported}
        </p>
      )}
      <div class="row">
        <button type="button" disabled={!rerun.possible} onClick={rerun.start}>
          Run this kernel again
        </button>
        <span class="muted">
          {rerun.devices.length > 0 ? `on ${rerun.devices.join(", ")}, ` : "choose a device above; "}
          with the file as it is on disk now
        </span>
      </div>
      <LaunchSection
        bundle={detail.bundle}
        variant={variant}
        pick={(other) => setPicked(other.entry_points[0]?.file ?? null)}
      />
      {file && (
        <section class="file">
          <h3>
            {files.length > 1 ? (
              <select
                aria-label="File"
                value={file.name}
                onChange={(event) => setPicked(event.currentTarget.value)}
              >
                {files.map((candidate) => (
                  <option key={candidate.name} value={candidate.name}>
                    {candidate.name}
                    {candidate.edited ? " (edited)" : ""}
                  </option>
                ))}
              </select>
            ) : (
              <code>{file.name}</code>
            )}{" "}
            {file.edited && <Edited title="Differs from what was generated." />}
          </h3>
          <WgslCode
            text={file.text}
            marks={diagnostics.filter((item) => item.file === file.name || detail.files.length === 1)}
            line={line?.file === file.name ? line.line : null}
          />
        </section>
      )}
    </>
  );
}

/** Of all devices and nodes, each once: the messages belong to the text, not to the test. */
function diagnosticsOf(state: ResultsState, kernel: string): Diagnostic[] {
  const found = new Map<string, Diagnostic>();
  for (const tests of Object.values(state.verdicts)) {
    for (const test of Object.values(tests)) {
      if (test.kernel !== kernel) continue;
      for (const item of test.diagnostics)
        found.set(`${item.file}:${item.line}:${item.column}:${item.message}`, item);
    }
  }
  return [...found.values()];
}
