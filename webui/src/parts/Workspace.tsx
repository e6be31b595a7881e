/** The panes of a suite's page, and what they share: the selected node, the chosen device, the view. */

import { useEffect, useMemo } from "preact/hooks";
import { api } from "../api/client";
import type { SuiteDetail } from "../api/types";
import type { View } from "../graph/types";
import { remarks } from "../model/history";
import { locateMarks, locateNodeStates } from "../model/locate";
import { buildMatrix, nodeStates, problemNodes } from "../model/matrix";
import { offloadNodeStates } from "../model/offload";
import { isReported } from "../model/reported";
import { useDeviceChoice } from "../state/device-choice";
import { useResource } from "../state/resource";
import { useQuery } from "../state/router";
import { useDevices } from "../state/use-devices";
import { useResults } from "../state/use-results";
import { ActionBar } from "./ActionBar";
import { Problem, Tabs } from "./Basics";
import { DetailPane } from "./DetailPane";
import { GraphPane } from "./GraphPane";
import { JobBar } from "./JobBar";
import { LocatePane } from "./LocatePane";
import { MatrixPane } from "./MatrixPane";
import { OffloadPane } from "./OffloadPane";

const VIEWS: readonly View[] = ["validation", "offload", "locate"];

export function Workspace(props: { suite: SuiteDetail }) {
  const { suite } = props;
  const results = useResults(suite.id);
  const devices = useDevices();
  const choice = useDeviceChoice(devices.data);
  const [node, setNode] = useQuery("node");
  const [chosen, setChosen] = useQuery("device");
  const [viewName, setViewName] = useQuery("view");
  const view = VIEWS.find((known) => known === viewName) ?? "validation";
  const setView = (next: View) => setViewName(next === "validation" ? null : next);
  const { state } = results;
  // What came with imported tests stands last: the suite is about what runs here.
  const columns = useMemo(
    () => [...state.devices].sort((a, b) => Number(isReported(a)) - Number(isReported(b))),
    [state.devices],
  );
  const device = columns.find((column) => column.id === chosen)?.id ?? columns[0]?.id ?? null;

  const matrix = useMemo(() => {
    const ids = columns.map((column) => column.id);
    return buildMatrix(suite, state, ids);
  }, [suite, state, columns]);
  const run = device === null ? undefined : state.offloads[device];
  const found = device === null ? undefined : state.locates[device];
  const states = useMemo(
    () =>
      view === "offload"
        ? offloadNodeStates(suite, run)
        : view === "locate" && found !== undefined
          ? locateNodeStates(suite, found)
          : nodeStates(matrix, device ?? ""),
    [view, suite, run, found, matrix, device],
  );
  const marks = useMemo(() => locateMarks(view === "locate" ? found : undefined), [view, found]);
  // Another one when a job has ended: what it changed is asked for again. Without history the page has all but the hints.
  const round = state.job === null || state.job.state === "running" ? "" : state.job.job;
  const history = useResource(`${suite.id} ${round}`, () => api.history(suite.id)).data;
  const hints = useMemo(() => remarks(history?.trends ?? []), [history]);
  const problems = useMemo(() => problemNodes(suite, matrix), [suite, matrix]);

  // A job's kind says what there is to look at.
  const kind = state.job?.kind ?? null;
  const job = state.job?.job ?? null;
  // Only when another job begins.
  useEffect(() => {
    if (kind !== null) setView(kind);
  }, [job, kind]);
  // A trace or a search is about one device: what is shown is what was asked for.
  const traced = kind === null || kind === "validation" ? null : (state.job?.devices[0] ?? null);
  useEffect(() => {
    if (traced !== null) setChosen(traced);
  }, [job, traced]);

  const select = (id: string | null, on?: string) => {
    setNode(id);
    if (on !== undefined) setChosen(on);
  };
  const known = suite.graph.nodes.find((candidate) => candidate.id === node) ?? null;
  const shared = { suite, state, devices: columns, device, node: known, choose: setChosen, select };

  return (
    <>
      <ActionBar
        devices={devices}
        choice={choice}
        results={results}
        model={suite.model.kind !== "imported"}
        show={setView}
      />
      <JobBar job={state.job} devices={columns} />
      {results.problem && (
        <Problem title="" error={results.problem} retry={results.reload} dismiss={results.dismiss} />
      )}
      {node !== null && known === null && (
        <Problem title="" error={`This suite has no node ${node}.`} dismiss={() => setNode(null)} />
      )}
      <div class={`stack workspace view-${view}${known ? " with-detail" : ""}`}>
        <section class="pane pane-list" aria-label="Results">
          <Tabs
            label="Results"
            selected={view}
            select={setView}
            tabs={[
              { id: "validation", name: "Operators" },
              { id: "offload", name: "Offload trace" },
              { id: "locate", name: "Faulty kernels" },
            ]}
          />
          {view === "validation" ? (
            <MatrixPane {...shared} matrix={matrix} loaded={results.loaded} remarks={hints} />
          ) : view === "locate" ? (
            <LocatePane {...shared} />
          ) : (
            <OffloadPane {...shared} />
          )}
        </section>
        <GraphPane {...shared} states={states} marks={marks} view={view} />
        {known && (
          <DetailPane
            {...shared}
            key={known.kernel}
            node={known}
            problems={problems}
            round={round}
            rerun={{
              devices: choice.choices
                .filter(({ value }) => choice.selected.includes(value))
                .map(({ name }) => name),
              possible: choice.selected.length > 0 && state.job?.state !== "running",
              start: () => results.start("validation", choice.selected, [known.kernel]),
            }}
          />
        )}
      </div>
    </>
  );
}
