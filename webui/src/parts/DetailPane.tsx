/** Everything about one node: its verdicts, its tensors, its kernel. */

import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import { nodeNames, testState } from "../model/matrix";
import { useResource } from "../state/resource";
import { Edited, Pending, Tabs, VerdictBadge } from "./Basics";
import { HistoryTab } from "./HistoryTab";
import { KernelTab } from "./KernelTab";
import { NodePicker, type NodePickerProps } from "./NodePicker";
import { TensorsTab } from "./TensorsTab";
import { VerdictTab } from "./VerdictTab";

interface DetailPaneProps extends NodePickerProps {
  /** Read again when it changes: someone edits the WGSL between two runs. */
  round: string;
  rerun: { devices: string[]; possible: boolean; start: () => void };
}

type Tab = "verdict" | "tensors" | "kernel" | "history";

export function DetailPane(props: DetailPaneProps) {
  const { suite, node, state, device, round } = props;
  const [tab, setTab] = useState<Tab>("verdict");
  const [line, setLine] = useState<{ file: string; line: number } | null>(null);
  const [wanted, setStep] = useState(0);
  const tests = suite.tests.filter((test) => test.node === node.id);
  const test = tests.find((candidate) => candidate.step === wanted) ?? tests[0];
  const kernel = suite.kernels.find((candidate) => candidate.kernel === node.kernel);
  const detail = useResource(kernel ? `${node.kernel} ${round}` : null, () =>
    api.kernel(suite.id, node.kernel),
  );
  const facts = useResource(test ? test.id : null, () => api.test(suite.id, test?.id ?? ""));
  const { select } = props;

  useEffect(() => {
    const close = (event: KeyboardEvent) => {
      if (event.key === "Escape" && !event.defaultPrevented) select(null);
    };
    addEventListener("keydown", close);
    return () => removeEventListener("keydown", close);
  }, [select]);

  const showLine = (file: string, at: number) => {
    setLine({ file, line: at });
    setTab("kernel");
  };
  const edited = detail.data?.files.some((file) => file.edited) ?? kernel?.edited ?? false;

  return (
    <aside class="pane pane-detail" aria-label={`Node ${node.id}`}>
      <header class="stack detail-head">
        <div class="detail-title">
          <h2 title={node.kernel}>{node.kernel}</h2>
          <button type="button" class="close" aria-label="Close the details" onClick={() => select(null)}>
            ✕
          </button>
        </div>
        <p class="row detail-sub">
          <code>{node.id}</code> <span class="muted">{nodeNames(suite).get(node.id)}</span>
          {edited && <Edited title="The WGSL differs from what was generated." />}
        </p>
        <NodePicker {...props} />
        {test && (
          <ul class="row chips" aria-label="Verdicts">
            {state.devices.map((column) => (
              <li key={column.id}>
                {column.name} <VerdictBadge state={testState(state, column.id, test)} />
              </li>
            ))}
            {tests.length > 1 && (
              <li>
                <label>
                  step{" "}
                  <select value={test.step} onChange={(event) => setStep(Number(event.currentTarget.value))}>
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
          <Tabs
            label="Details"
            selected={tab}
            select={setTab}
            tabs={[
              { id: "verdict", name: "Verdict" },
              { id: "tensors", name: "Tensors" },
              { id: "kernel", name: "Kernel" },
              { id: "history", name: "History" },
            ]}
          />
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
              />
            )}
            {tab === "tensors" &&
              (facts.data ? <TensorsTab detail={facts.data} /> : <Pending what="the tensors" of={facts} />)}
            {tab === "kernel" &&
              (detail.data ? (
                <KernelTab detail={detail.data} state={state} line={line} rerun={props.rerun} />
              ) : (
                <Pending what="the kernel" of={detail} />
              ))}
            {tab === "history" && <HistoryTab key={test.id} suite={suite.id} test={test.id} round={round} />}
          </section>
        </>
      )}
    </aside>
  );
}
