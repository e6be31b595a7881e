/** Every element of a test's outputs, fetched from the device on demand: where it is wrong, and whose work that was. */

import { useMemo, useRef, useState } from "preact/hooks";
import { asError } from "../api/client";
import type { DeviceDocument, TestResult } from "../api/generated/results";
import type { TestDetail } from "../api/types";
import type { Compared } from "../model/elements";
import { count, tensorType } from "../model/format";
import { comparedLayers, comparedText, type Layer, layerOf } from "../model/layers";
import { type Workgroups, whereText } from "../model/workgroups";
import { fetchCompared, fetchTensor, fetchWorkgroups } from "../state/outputs";
import { useAttempt } from "../state/resource";
import { Problem } from "./Basics";
import { elementSaid, TensorViewer } from "./TensorViewer";

/** Whose work elements are: asked for when the outputs are there; an Error says why it is not known. */
type Whose = Map<number, Workgroups> | Error | null;

export function AllElements(props: {
  suite: string;
  device: DeviceDocument;
  result: TestResult;
  detail: TestDetail | null;
  /** Whether the verdict above is of an older text. */
  stale: boolean;
  /** Texts that are not saved, which are to run; undefined: those on disk. */
  files?: Record<string, string>;
}) {
  const { suite, device, result, detail, files } = props;
  const [outputs, setOutputs] = useState<Compared[] | null>(null);
  const [whose, setWhose] = useState<Whose>(null);
  const [inputs, setInputs] = useState<Layer[]>([]);
  const [output, setOutput] = useState(0);
  const { problem, dismiss, busy, attempt } = useAttempt();
  const input = useAttempt();
  const place = useRef<HTMLDivElement>(null);
  const round = useRef(0);
  const fetch = () =>
    attempt(async () => {
      if (detail === null) return;
      round.current += 1;
      const own = round.current;
      setWhose(null);
      setOutputs(await fetchCompared(suite, device, result, detail, files));
      // What the button stood for takes its place.
      requestAnimationFrame(() => place.current?.focus());
      fetchWorkgroups(suite, device, result, files)
        .catch(asError)
        .then((found) => own === round.current && setWhose(found));
    });
  const shown = outputs?.[output];
  const layers = useMemo(() => [...(shown ? comparedLayers(shown) : []), ...inputs], [shown, inputs]);
  const given = detail?.tensors.filter(({ role }) => role === "input") ?? [];
  const named = given.map((ref, at) => ({ id: `input ${at}`, name: `input ${ref.name || ref.value}`, ref }));
  const missing = named.filter(({ id }) => inputs.every((known) => known.id !== id));
  const ask = (id: string) =>
    input.attempt(async () => {
      const found = missing.find((one) => one.id === id);
      if (found === undefined) return;
      const layer = layerOf(id, found.name, await fetchTensor(found.ref));
      setInputs((old) => [...old.filter((known) => known.id !== id), layer]);
    });
  const workgroups = (whose instanceof Map && whose.get(output)) || null;
  return (
    <div class="stack tight all-elements">
      <p class="row">
        <button type="button" disabled={busy || detail === null} onClick={fetch}>
          {busy ? "Running…" : outputs ? "Fetch again" : "Show every element"}
        </button>
        <span class="muted">
          runs the kernel on {device.name}, {files ? "with what is not saved" : "as it is now"}
        </span>
      </p>
      {problem && <Problem title="" error={problem} dismiss={dismiss} />}
      {input.problem && <Problem title="" error={input.problem} dismiss={input.dismiss} />}
      {outputs !== null && shown !== undefined && (
        <div class="stack tight" ref={place} tabIndex={-1}>
          {props.stale && <p>This is of the WGSL of now; the verdict above is not.</p>}
          {outputs.length > 1 && (
            <label>
              output{" "}
              <select value={output} onChange={(event) => setOutput(Number(event.currentTarget.value))}>
                {outputs.map((one, at) => (
                  <option key={at} value={at}>
                    {at}: {tensorType("", one.shape)}, {count(one.wrong, "element")} wrong
                  </option>
                ))}
              </select>
            </label>
          )}
          <p class={shown.wrong > 0 ? "message is-fail" : "muted"}>{whereText(shown, workgroups)}</p>
          <TensorViewer
            key={output}
            layers={layers}
            more={missing}
            ask={ask}
            said={(layer, flat) =>
              layer.times ? comparedText(shown, workgroups, flat) : elementSaid(layer, flat)
            }
            numbers={workgroups?.numbers ?? null}
          />
          <p class="muted">{whoseText(whose, output)}</p>
        </div>
      )}
    </div>
  );
}

function whoseText(whose: Whose, output: number): string {
  if (whose === null) return "Finding out which workgroup computes which element…";
  if (whose instanceof Error) return `Which workgroup computes which element is not known: ${whose.message}`;
  const found = whose.get(output);
  if (found === undefined) return "Which workgroup computes which element is not known for this output.";
  const all = found.grid.reduce((product, extent) => product * extent, 1);
  return all === 1
    ? "One workgroup computes all of it."
    : `Lines: between the elements of its ${found.grid.join(" × ")} workgroups, as measured on the device.`;
}
