/** The panes of a suite's page, and what they share: the selected node, the chosen device, the view. */

import { useEffect, useMemo, useRef } from "preact/hooks";
import { api } from "../api/client";
import type { JobKind, SuiteDetail } from "../api/types";
import type { View } from "../graph/types";
import { labelled } from "../model/device-list";
import { stepNodeStates } from "../model/generation";
import { remarks } from "../model/history";
import { locateMarks, locateNodeStates } from "../model/locate";
import { buildMatrix, nodeStates, problemNodes } from "../model/matrix";
import { offloadNodeStates, offloadNodeWords, runUntil } from "../model/offload";
import { changedSince } from "../model/older";
import { type Entry, suiteEntries } from "../model/palette";
import { isReported } from "../model/reported";
import { jobAgain } from "../state/again";
import { useDeviceChoice } from "../state/device-choice";
import { useResource } from "../state/resource";
import { changeQuery, useQuery } from "../state/router";
import { useRunOnSave } from "../state/run-on-save";
import { useDevices } from "../state/use-devices";
import { useResults } from "../state/use-results";
import { useWriting } from "../state/use-writing";
import { ActionBar } from "./ActionBar";
import { Problem, SkipLinks, Tabs } from "./Basics";
import { ComparePane } from "./ComparePane";
import { DetailPane } from "./DetailPane";
import { GenerationPane } from "./GenerationPane";
import { GraphPane } from "./GraphPane";
import { JobBar } from "./JobBar";
import { LocatePane } from "./LocatePane";
import { MatrixPane } from "./MatrixPane";
import { OffloadPane } from "./OffloadPane";
import { Palette } from "./Palette";
import { Maximise, Panes } from "./Panes";
import { triedOf } from "./Replay";
import type { Rerun } from "./shared";
import { UnknownParts } from "./UnknownParts";

const TABS: readonly { id: View; name: string }[] = [
  { id: "validation", name: "Operators" },
  { id: "offload", name: "Offload trace" },
  { id: "locate", name: "Faulty kernels" },
  { id: "compare", name: "Compare" },
];
const WRITING: { id: View; name: string } = { id: "generation", name: "Generation" };

export function Workspace(props: { suite: SuiteDetail }) {
  const { suite } = props;
  const results = useResults(suite.id);
  const devices = useDevices();
  const choice = useDeviceChoice(devices.data);
  const [node] = useQuery("node");
  const [chosen, setChosen] = useQuery("device");
  const [viewName, setViewName] = useQuery("view");
  const tabs = suite.generation === null ? TABS : [...TABS, WRITING];
  const view = tabs.find((known) => known.id === viewName)?.id ?? "validation";
  const viewQuery = (next: View) => (next === "validation" ? null : next);
  const setView = (next: View) => setViewName(viewQuery(next));
  const { state } = results;
  // What came with imported tests stands last: the suite is about what runs here.
  const columns = useMemo(
    () => state.devices.map(labelled).sort((a, b) => Number(isReported(a)) - Number(isReported(b))),
    [state.devices],
  );
  // Where the address names none, one that has what the view shows.
  const shown = view === "offload" ? state.offloads : view === "locate" ? state.locates : null;
  const tried = columns.find(({ id }) => shown?.[id] !== undefined);
  const device = (columns.find(({ id }) => id === chosen) ?? tried ?? columns[0])?.id ?? null;

  const matrix = useMemo(() => {
    const ids = columns.map((column) => column.id);
    return buildMatrix(suite, state, ids);
  }, [suite, state, columns]);
  const run = device === null ? undefined : state.offloads[device];
  const found = device === null ? undefined : state.locates[device];
  const { kernels } = state;
  const moved = useMemo(() => changedSince(run?.digests ?? {}, kernels), [run?.digests, kernels]);
  const searched = useMemo(() => changedSince(found?.kernel_digests ?? {}, kernels), [found, kernels]);
  const live = useWriting(suite.id);
  const [position] = useQuery("position");
  const token = live.writing?.tokens.find((one) => String(one.position) === position);
  const calls = token && live.steps[token.position]?.document?.calls;
  const [moves] = useQuery("moves");
  const until = useMemo(() => runUntil(run, triedOf(moves)), [run, moves]);
  const words = useMemo(() => offloadNodeWords(view === "offload" ? until : undefined), [view, until]);
  const states = useMemo(
    () =>
      (view === "generation" && token && stepNodeStates(suite, state, device, token, calls)) ||
      (view === "offload"
        ? offloadNodeStates(suite, until, moved)
        : view === "locate" && found !== undefined
          ? locateNodeStates(suite, found, searched)
          : nodeStates(matrix, device ?? "")),
    [view, suite, until, found, matrix, device, moved, searched, token, calls],
  );
  const marks = useMemo(
    () => locateMarks(view === "locate" ? found : undefined, searched),
    [view, found, searched],
  );
  // Another one when a job has ended: what it changed is asked for again. Without history the page has all but the hints.
  const round = state.job === null || state.job.state === "running" ? "" : state.job.job;
  const history = useResource(`${suite.id} ${round}`, () => api.history(suite.id)).data;
  const hints = useMemo(() => remarks(history?.trends ?? [], kernels), [history, kernels]);
  const problems = useMemo(() => problemNodes(suite, matrix), [suite, matrix]);

  // A job's kind says what there is to look at.
  const kind = state.job?.kind ?? null;
  const job = state.job?.job ?? null;
  // Only when another job begins.
  useEffect(() => {
    if (kind !== null) changeQuery({ view: viewQuery(kind) }, "looking");
  }, [job, kind]);
  // A trace or a search is about one device, a validation about those it runs on: once for each job, for the graph may be
  // coloured by another one after.
  const first = state.job?.devices[0] ?? null;
  const led = useRef<string | null>(null);
  useEffect(() => {
    if (job === null || kind === null || first === null || led.current === job) return;
    led.current = job;
    // Of several chosen ones some come later: the one that is looked at may be among them.
    const shown = columns.find((column) => column.id === device);
    const also = shown !== undefined && rerun.devices.includes(shown.name);
    if (kind !== "validation" || !(state.job?.trial || also || first === device))
      changeQuery({ device: first }, "looking");
  }, [job, kind, first]);

  const kernelOf = (id: string | null) => suite.graph.nodes.find((other) => other.id === id)?.kernel;
  const select = (id: string | null, on?: string) => {
    // Another kernel's details begin at its verdict.
    const anew = id === null || kernelOf(id) !== kernelOf(node) ? { tab: null, step: null } : {};
    changeQuery({ node: id, element: null, ...(on !== undefined && { device: on }), ...anew });
  };
  const known = suite.graph.nodes.find((candidate) => candidate.id === node) ?? null;
  const rerun: Rerun = {
    devices: choice.choices.filter(({ value }) => choice.selected.includes(value)).map(({ name }) => name),
    possible: choice.selected.length > 0 && state.job?.state !== "running",
    start: (kernels, tried) => results.start("validation", choice.selected, kernels, tried),
    know: results.know,
    wrote: results.wrote,
  };
  const runOnSave = useRunOnSave(state, rerun);
  const shared = { suite, state, devices: columns, device, node: known, choose: setChosen, select };
  const entries = (): Entry[] => {
    const action = (name: string, note: string, run: () => void): Entry => ({
      kind: "action",
      name,
      note,
      run,
    });
    const job = (kind: JobKind, name: string) =>
      action(name, `on ${rerun.devices.join(", ")}`, () => {
        setView(kind);
        void results.start(kind, kind === "validation" ? choice.selected : choice.selected.slice(0, 1), null);
      });
    const turns = tabs.map(({ id, name }) => action(`Show ${name}`, "", () => setView(id)));
    const whole = suite.model.kind !== "imported";
    const jobs = [
      job("validation", "Validate"),
      ...(whole ? [job("offload", "Offload")] : []),
      job("locate", "Locate"),
    ];
    return [
      ...(rerun.possible ? jobs : []),
      ...turns,
      ...columns.map((column): Entry => {
        return {
          kind: "device",
          name: column.name,
          note: "colours the graph",
          run: () => setChosen(column.id),
        };
      }),
      ...suiteEntries(suite, select),
    ];
  };

  return (
    <>
      <SkipLinks
        to={[
          { id: "results", name: "Skip to the results" },
          { id: "graph", name: "Skip to the graph" },
          ...(known ? [{ id: "details", name: `Skip to node ${known.id}` }] : []),
        ]}
      />
      <ActionBar
        devices={devices}
        choice={choice}
        known={columns}
        results={results}
        runOnSave={runOnSave}
        model={suite.model.kind !== "imported"}
        show={setView}
      >
        <Palette entries={entries} />
      </ActionBar>
      <JobBar job={state.job} devices={columns} kernels={kernels} />
      {results.problem && (
        <Problem title="" error={results.problem} retry={results.reload} dismiss={results.dismiss} />
      )}
      <UnknownParts
        suite={suite}
        views={tabs.map(({ id }) => id)}
        devices={results.loaded && state.job?.state !== "running" ? columns : null}
        select={select}
      />
      <Panes
        class={`view-${view}`}
        list={
          <section class="pane pane-list" id="results" tabIndex={-1} aria-label="Results">
            <div class="pane-head">
              <Tabs label="Results" selected={view} select={setView} tabs={tabs} />
              <Maximise pane="list" name="the results" />
            </div>
            {view === "validation" ? (
              <MatrixPane {...shared} matrix={matrix} loaded={results.loaded} remarks={hints} rerun={rerun} />
            ) : view === "compare" ? (
              <ComparePane suite={suite} select={select} round={round} />
            ) : view === "locate" ? (
              <LocatePane {...shared} again={jobAgain("locate", results, devices.data)} />
            ) : view === "generation" && suite.generation !== null ? (
              <GenerationPane
                {...shared}
                generation={suite.generation}
                live={live}
                on={choice.choices.find(({ value }) => value === choice.selected[0])}
              />
            ) : (
              <OffloadPane {...shared} again={jobAgain("offload", results, devices.data)} />
            )}
          </section>
        }
        graph={
          <GraphPane
            {...shared}
            loaded={results.loaded}
            states={states}
            marks={marks}
            view={view}
            words={words}
          />
        }
        detail={
          known && (
            <DetailPane
              {...shared}
              key={known.kernel}
              node={known}
              problems={problems}
              round={round}
              rerun={rerun}
              loaded={results.loaded}
            />
          )
        }
      />
    </>
  );
}
