/** Two runs beside each other: what changed in verdict, error and time. Which two is in the address. */

import { useMemo } from "preact/hooks";
import { api } from "../api/client";
import type { ComparedOutcome, ComparedTest, Comparison, RunSide } from "../api/generated/results";
import { count, date, error, seconds } from "../model/format";
import { shareText } from "../model/headline";
import { asState } from "../model/verdicts";
import { useResource } from "../state/resource";
import { changeQuery, useQuery } from "../state/router";
import { Pending, VerdictBadge } from "./Basics";
import { ScrollBox } from "./ScrollBox";
import type { Shared } from "./shared";

const WORDS = {
  worse: "worse",
  better: "better",
  other: "with another verdict",
  added: "only in the second run",
  removed: "only in the first run",
  same: "with the same verdict",
} as const;

const key = (side: RunSide) => `${side.run}/${side.device}`;
/** Numbered as `tapml compare --list` does. */
const nameOf = (side: RunSide, at: number) =>
  `${at + 1}: ${side.device} · ${date(side.created)} · ${count(side.tests, "test")}`;
const family = (device: string) => device.replace(/[\s/]+v?\d[\w.+-]*( \(\d+\))?$/, "");

/** The last two runs on one device, where the address names none: on the same tab of a browser, if it ran twice. */
export function pairOf(runs: readonly RunSide[], before: string | null, after: string | null) {
  const second = runs.find((side) => key(side) === after) ?? runs[0];
  const older = second === undefined ? [] : runs.slice(runs.indexOf(second) + 1);
  const others = older.filter((side) => side.run !== second?.run);
  const first =
    runs.find((side) => key(side) === before) ??
    others.find((side) => side.device === second?.device) ??
    others.find((side) => family(side.device) === family(second?.device ?? "")) ??
    older[0];
  return { first, second };
}

/** What the address asks for and the history does not have. */
export function missingRuns(runs: readonly RunSide[], asked: Record<"before" | "after", string | null>) {
  return (["before", "after"] as const).flatMap((name) => {
    const run = asked[name];
    return run === null || runs.some((side) => key(side) === run) ? [] : [{ name, run }];
  });
}

export function ComparePane(props: Pick<Shared, "suite" | "select"> & { round: string }) {
  const { suite, round } = props;
  const runs = useResource(`runs ${suite.id} ${round}`, () => api.runs(suite.id));
  const [before, setBefore] = useQuery("before");
  const [after, setAfter] = useQuery("after");
  if (runs.data === null) return <Pending what="the runs" of={runs} />;
  const { first, second } = pairOf(runs.data.runs, before, after);
  if (first === undefined || second === undefined)
    return (
      <p class="hint">
        Two runs are compared, and there are fewer. Validate once more, or on another device.
      </p>
    );
  const list = runs.data.runs;
  const missing = missingRuns(list, { before, after });
  return (
    <div class="stack compare">
      {missing.map(({ name, run }) => (
        <p key={name} class="message row" role="alert">
          There is no run {run} of this suite: the {name === "before" ? "first" : "second"} below is another.
          <button type="button" onClick={() => changeQuery({ [name]: null })}>
            Compare these
          </button>
        </p>
      ))}
      <div class="row pane-tools">
        <Choice name="Before" list={list} chosen={first} choose={setBefore} />
        <Choice name="After" list={list} chosen={second} choose={setAfter} />
        <button
          type="button"
          onClick={() => {
            setBefore(key(second));
            setAfter(key(first));
          }}
        >
          Swap
        </button>
      </div>
      <Compared {...props} first={first} second={second} />
    </div>
  );
}

function Choice(props: {
  name: string;
  list: readonly RunSide[];
  chosen: RunSide;
  choose: (run: string) => void;
}) {
  return (
    <label class="row">
      {props.name}
      <select value={key(props.chosen)} onChange={(event) => props.choose(event.currentTarget.value)}>
        {props.list.map((side, at) => (
          <option key={key(side)} value={key(side)}>
            {nameOf(side, at)}
          </option>
        ))}
      </select>
    </label>
  );
}

function Compared(
  props: Pick<Shared, "suite" | "select"> & { first: RunSide; second: RunSide; round: string },
) {
  const { suite, first, second } = props;
  const found = useResource(`${suite.id} ${key(first)} ${key(second)}`, () =>
    api.comparison(suite.id, key(first), key(second)),
  );
  const rows = useMemo(() => (found.data ? changedOf(found.data) : []), [found.data]);
  if (found.data === null) return <Pending what="the comparison" of={found} />;
  return (
    <>
      <p class="hint">{summaryText(found.data)}</p>
      {rows.length === 0 ? (
        <p class="hint">No verdict changed, no kernel and no error by more than twice.</p>
      ) : (
        <ScrollBox class="scroll-x" label="Changed tests">
          <table class="trace">
            <thead>
              <tr>
                {["test", "before", "after", "of its bound", "max error", "GPU time"].map((head) => (
                  <th key={head} scope="col">
                    {head}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.slice(0, MOST_ROWS).map((test) => (
                <Row key={test.test} test={test} open={() => props.select(nodeOf(props, test))} />
              ))}
            </tbody>
          </table>
        </ScrollBox>
      )}
      {rows.length > MOST_ROWS && (
        <p class="hint">and {count(rows.length - MOST_ROWS, "more test", "more tests")}</p>
      )}
    </>
  );
}

const MOST_ROWS = 500;

function nodeOf(props: Pick<Shared, "suite">, test: ComparedTest): string | null {
  return props.suite.tests.find(({ id }) => id === test.test)?.node ?? null;
}

function Row(props: { test: ComparedTest; open: () => void }) {
  const { before, after, kernel, kernel_changed: changed } = props.test;
  return (
    <tr>
      <th scope="row">
        <button type="button" class="row-name" title={`${props.test.test} of ${kernel}`} onClick={props.open}>
          {props.test.test} {breakable(kernel)}
        </button>
        {changed && <span class="row-count">other WGSL</span>}
      </th>
      {[before, after].map((side, at) => (
        <td key={at}>{side === null ? "-" : <VerdictBadge state={asState(side.verdict)} />}</td>
      ))}
      <Turned from={share(before)} to={share(after)} />
      <Turned from={error(before?.max_abs_error)} to={error(after?.max_abs_error)} />
      <Turned from={time(before?.gpu_seconds)} to={time(after?.gpu_seconds)} />
    </tr>
  );
}

/** A name that may be broken between its words. */
function breakable(name: string) {
  return name.split(/(?<=_)/).map((word, at) => (
    <span key={at}>
      {at > 0 && <wbr />}
      {word}
    </span>
  ));
}

/** On two lines where the pane is narrow. */
function Turned(props: { from: string; to: string }) {
  return (
    <td class="num">
      <span>{props.from} →</span> <span>{props.to}</span>
    </td>
  );
}

function share(side: ComparedTest["before"]): string {
  const found = side?.bound_share ?? null;
  return found === null ? "-" : shareText(Number(found));
}

function time(found: number | null | undefined): string {
  return found === null || found === undefined ? "-" : seconds(found);
}

/** What changed in verdict, text, or error by more than twice; as the terminal has it. */
export function changedOf(found: Comparison): ComparedTest[] {
  return found.tests.filter((test) => {
    if (test.kernel_changed || ["worse", "better", "other"].includes(test.change)) return true;
    if (test.before === null || test.after === null) return false;
    const [old, now] = errorsOf(test.before, test.after);
    if (old === null || now === null) return old !== now;
    return Math.max(Number(old), Number(now)) > 2 * Math.min(Number(old), Number(now));
  });
}

/** Shares of the bound where both runs tell them. */
function errorsOf(before: ComparedOutcome, after: ComparedOutcome) {
  const shares = [before.bound_share, after.bound_share] as const;
  if (shares.includes(null)) return [before.max_abs_error, after.max_abs_error] as const;
  return shares;
}

export function summaryText(found: Comparison): string {
  const { summary } = found;
  const counts = Object.entries(WORDS).flatMap(([change, word]) => {
    const number = summary[change as keyof typeof WORDS];
    return number > 0 ? [`${number} ${word}`] : [];
  });
  const [old, now] = summary.seconds;
  const times =
    typeof old === "number" && typeof now === "number" && old > 0
      ? `; ${summary.gpu ? "GPU time" : "time"} ${time(old)}, then ${time(now)}`
      : "";
  const texts =
    summary.kernels_changed.length > 0 ? `; other WGSL of ${summary.kernels_changed.join(", ")}` : "";
  return `${count(found.tests.length, "test")}: ${counts.join(", ")}${texts}${times}`;
}
