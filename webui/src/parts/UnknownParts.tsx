/** What the address asks for and this suite does not have, with what there is instead. */

import { useEffect, useMemo } from "preact/hooks";
import type { DeviceDocument } from "../api/generated/results";
import type { SuiteDetail } from "../api/types";
import { everything, foldable } from "../graph/outline";
import { type Choice, resolved, unknownChoices, unknownOf } from "../model/address";
import { GROUPS, SORTS } from "../model/triage";
import { changeQuery, useQuery } from "../state/router";
import { TAB_NAMES } from "./DetailPane";
import { PANES } from "./Panes";

export function UnknownParts(props: {
  suite: SuiteDetail;
  /** Null while results are not there. */
  devices: readonly DeviceDocument[] | null;
  /** Which the page has for this suite. */
  views: readonly string[];
  select: (node: string) => void;
}) {
  const { suite, devices, select } = props;
  const [node] = useQuery("node");
  const [test] = useQuery("test");
  const [kernel] = useQuery("kernel");
  const [device] = useQuery("device");
  const asked = { node, test, kernel, device };
  const choices = useChoices(suite, props.views, node);
  // An address may name a test or a kernel: what is shown is its node.
  const query = resolved(suite, asked);
  useEffect(() => {
    if (query !== null) changeQuery(query, "looking");
  }, [test, kernel]);
  if (query !== null) return null;
  const ids = devices?.map(({ id }) => id) ?? null;
  return [...unknownOf(suite, ids, asked), ...unknownChoices(choices)].map(({ name, sentence, instead }) => (
    <div key={name} class="row problem" role="alert">
      <p>{sentence}</p>
      {instead && (
        <button
          type="button"
          onClick={() => {
            changeQuery({ [name]: null }, "looking");
            select(instead.node);
          }}
        >
          Show {instead.word}
        </button>
      )}
      <button type="button" onClick={() => changeQuery({ [name]: null })}>
        {["node", "test", "kernel"].includes(name) ? "Show the whole suite" : "Show what there is"}
      </button>
    </div>
  ));
}

/** The parts that are one of a few words. */
function useChoices(suite: SuiteDetail, views: readonly string[], node: string | null): Choice[] {
  const [view] = useQuery("view");
  const [tab] = useQuery("tab");
  const [step] = useQuery("step");
  const [group] = useQuery("group");
  const [sort] = useQuery("sort");
  const [problems] = useQuery("problems");
  const [max] = useQuery("max");
  const [open] = useQuery("open");
  // What can be folded takes a while to find in a deep model.
  const blocks = useMemo(
    () => (open === null ? [] : ["all", "none", ...everything(foldable(suite.graph).groups)]),
    [suite, open],
  );
  const steps = suite.tests.filter((test) => test.node === node).map((test) => String(test.step));
  const opened = open?.split(",").find((id) => !blocks.includes(id)) ?? null;
  return [
    { name: "view", what: "view", wanted: view, there: views },
    { name: "tab", what: "tab of details", wanted: tab, there: TAB_NAMES },
    { name: "step", what: `step of ${node}`, wanted: steps.length > 0 ? step : null, there: steps },
    { name: "group", what: "groups", wanted: group, there: GROUPS },
    { name: "sort", what: "order", wanted: sort, there: SORTS },
    { name: "problems", what: "choice of problems", wanted: problems, there: ["only"] },
    { name: "max", what: "pane", wanted: max, there: PANES },
    { name: "open", what: "block", wanted: opened, there: blocks },
  ];
}
