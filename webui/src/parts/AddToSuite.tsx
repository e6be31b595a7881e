/** An opened test can be added to a suite that the server shows. */

import { useState } from "preact/hooks";
import { api } from "../api/client";
import type { SuiteDetail, SuiteSummary } from "../api/types";
import { useAttempt, useResource } from "../state/resource";
import { navigate, suitePath } from "../state/router";
import { Link, Problem } from "./Basics";

export function AddToSuite({ suite }: { suite: SuiteDetail }) {
  const suites = useResource("suites", api.suites);
  const { problem, dismiss, attempt } = useAttempt();
  const [known, setKnown] = useState<{ path: string; id: string; target: string } | null>(null);
  const [chosen, setChosen] = useState<string | null>(null);
  const others = (suites.data ?? []).filter(
    (other): other is SuiteSummary => !("problem" in other) && other.id !== suite.id,
  );
  const test = suite.tests[0];
  const target = others.find((other) => other.id === chosen)?.id ?? others[0]?.id;
  if (!test || target === undefined) return null;

  const add = () =>
    attempt(async () => {
      const { test: id, added } = await api.addTest(target, suite.id, test.id);
      const path = suitePath(target, { node: id.replace(/\.s\d+$/, "") });
      if (added) navigate(path);
      else setKnown({ path, id, target });
    });
  return (
    <div class="row add-to-suite">
      {problem && <Problem title="The test was not added." error={problem} dismiss={dismiss} />}
      <label>
        Add this test to{" "}
        <select value={target} onChange={(event) => setChosen(event.currentTarget.value)}>
          {others.map((other) => (
            <option key={other.id} value={other.id}>
              {other.name}
            </option>
          ))}
        </select>
      </label>
      <button type="button" onClick={add}>
        Add
      </button>
      {known?.target === target && (
        <span role="status">
          It is there already, as <Link href={known.path}>{known.id}</Link>.
        </span>
      )}
    </div>
  );
}
