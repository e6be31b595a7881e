/** Everything about one node: its verdicts, its tensors, its kernel. */

import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import type { KernelDetail } from "../api/types";
import { deviceLabel } from "../model/device-list";
import { nodeNames } from "../model/matrix";
import type { ResultsState } from "../model/results";
import { digestOf, textsOf, withUnsaved } from "../model/tried";
import { useDrafts } from "../state/drafts";
import { useResource } from "../state/resource";
import { changeQuery, useQuery } from "../state/router";
import { Edited, Pending, Tabs } from "./Basics";
import { HistoryTab } from "./HistoryTab";
import { KernelTab } from "./KernelTab";
import { NodePicker, type NodePickerProps } from "./NodePicker";
import { Maximise } from "./Panes";
import type { Rerun } from "./shared";
import { TensorsTab } from "./TensorsTab";
import { TestBadge } from "./TestBadge";
import { type Unsaved, VerdictTab } from "./VerdictTab";

interface DetailPaneProps extends NodePickerProps {
  /** Read again when it changes: someone edits the WGSL between two runs. */
  round: string;
  rerun: Rerun;
  /** Whether the saved results are there. */
  loaded: boolean;
}

type Tab = "verdict" | "tensors" | "kernel" | "history";

const TABS: readonly { id: Tab; name: string }[] = [
  { id: "verdict", name: "Verdict" },
  { id: "tensors", name: "Tensors" },
  { id: "kernel", name: "Kernel" },
  { id: "history", name: "History" },
];

export const TAB_NAMES: readonly string[] = TABS.map(({ id }) => id);

export function DetailPane(props: DetailPaneProps) {
  const { suite, node, state, device, round } = props;
  const [tabName, setTabName] = useQuery("tab");
  const tab = TABS.find(({ id }) => id === tabName)?.id ?? "verdict";
  const setTab = (next: Tab) => setTabName(next === "verdict" ? null : next);
  const [line, setLine] = useState<{ file: string; line: number } | null>(null);
  const [wanted, setStep] = useQuery("step");
  const tests = suite.tests.filter((test) => test.node === node.id);
  const test = tests.find((candidate) => candidate.step === Number(wanted)) ?? tests[0];
  const kernel = suite.kernels.find((candidate) => candidate.kernel === node.kernel);
  const now = state.kernels[node.kernel];
  const detail = useResource(kernel ? node.kernel : null, () => api.kernel(suite.id, node.kernel));
  // Somebody edits the WGSL, between two runs or at any time: what is shown stays until the new text is there.
  const version = `${round} ${now?.digest ?? ""}`;
  const { reload } = detail;
  const files = detail.data ? [...detail.data.files, detail.data.document] : [];
  const drafts = useDrafts(suite.id, files);
  const unsaved = detail.data ? unsavedOf(detail.data, drafts.unsaved(files), state) : null;
  useEffect(reload, [version, reload]);
  const facts = useResource(test ? test.id : null, () => api.test(suite.id, test?.id ?? ""));
  const { select } = props;

  useEffect(() => {
    const close = (event: KeyboardEvent) => {
      // With a dialog before it, Escape is the dialog's, wherever the focus is: what had it may be gone.
      if (event.key !== "Escape" || event.defaultPrevented || document.querySelector("dialog[open]")) return;
      select(null);
    };
    addEventListener("keydown", close);
    return () => removeEventListener("keydown", close);
  }, [select]);

  const showLine = (file: string, at: number) => {
    setLine({ file, line: at });
    setTab("kernel");
  };
  /** Of the test that is shown, if it is one of them. */
  const showElements = (ids: string[]) => {
    const wanted = suite.tests.find(({ id }) => id === (ids.includes(test?.id ?? "") ? test?.id : ids[0]));
    if (wanted === undefined) return;
    const step = wanted.step === 0 ? null : String(wanted.step);
    changeQuery({ node: wanted.node, step, tab: null, element: null });
  };
  const edited = now?.edited ?? kernel?.edited ?? false;

  return (
    <aside class="pane pane-detail" id="details" tabIndex={-1} aria-label={`Node ${node.id}`}>
      <header class="stack detail-head">
        <div class="detail-title">
          <h2 title={node.kernel}>{node.kernel}</h2>
          <Maximise pane="detail" name="the details" />
          <button type="button" class="close" aria-label="Close the details" onClick={() => select(null)}>
            ✕
          </button>
        </div>
        <p class="row detail-sub">
          <code>{node.id}</code> <span class="muted">{nodeNames(suite).get(node.id)}</span>
          {edited && <Edited title="The WGSL, or how it is launched, differs from what was generated." />}
          {unsaved && (
            <button
              type="button"
              class="link"
              title={`Edited here, not on disk: ${unsaved.names.join(", ")}`}
              onClick={() => setTab("kernel")}
            >
              <span aria-hidden="true">✎ </span>draft
            </button>
          )}
        </p>
        <NodePicker {...props} />
        {test && (
          <ul class="row chips" aria-label="Verdicts">
            {state.devices.map((column) => (
              <li key={column.id}>
                {deviceLabel(column)} <TestBadge state={state} device={column.id} test={test} />
              </li>
            ))}
            {tests.length > 1 && (
              <li>
                <label>
                  step{" "}
                  <select
                    value={test.step}
                    onChange={({ currentTarget: { value } }) => setStep(value === "0" ? null : value)}
                  >
                    {tests.map((candidate) => (
                      <option key={candidate.id} value={candidate.step}>
                        {candidate.step}
                      </option>
                    ))}
                  </select>
                </label>
              </li>
            )}
          </ul>
        )}
      </header>
      {node.kind === "view" || test === undefined ? (
        <p class="hint">
          {node.kind === "view"
            ? "A view: the same bytes under another shape. No kernel runs, so there is nothing to test."
            : "No test was carved for this node."}
        </p>
      ) : (
        <>
          <Tabs label="Details" selected={tab} select={setTab} tabs={TABS} />
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard */}
          <section class="scroll detail-body" tabIndex={0} role="tabpanel" aria-label={tab}>
            {tab === "verdict" && (
              <VerdictTab
                suite={suite.id}
                test={test}
                state={state}
                device={device}
                detail={facts.data}
                showLine={showLine}
                rerun={props.rerun}
                unsaved={unsaved}
                loaded={props.loaded}
              />
            )}
            {tab === "tensors" &&
              (facts.data ? <TensorsTab detail={facts.data} /> : <Pending what="the tensors" of={facts} />)}
            {tab === "kernel" &&
              (detail.data ? (
                <KernelTab
                  suite={suite.id}
                  reload={reload}
                  detail={detail.data}
                  state={state}
                  line={line}
                  showLine={showLine}
                  showElements={showElements}
                  drafts={drafts}
                  rerun={props.rerun}
                />
              ) : (
                <Pending what="the kernel" of={detail} />
              ))}
            {tab === "history" && (
              <HistoryTab key={test.id} suite={suite.id} test={test.id} round={round} now={now} />
            )}
          </section>
        </>
      )}
    </aside>
  );
}

function unsavedOf(
  detail: KernelDetail,
  unsaved: Record<string, string>,
  state: ResultsState,
): Unsaved | null {
  const names = Object.keys(unsaved);
  if (names.length === 0) return null;
  const files = withUnsaved(detail, unsaved);
  return { names, files, digest: digestOf(state, detail.kernel, textsOf(detail, unsaved)) };
}
