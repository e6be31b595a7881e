import type { TestRef } from "../api/types";
import { testState } from "../model/matrix";
import type { ResultsState } from "../model/results";
import { asState, OLDER, WORD } from "../model/verdicts";
import { VerdictBadge } from "./Basics";

/** A test's verdict on a device; one of an older text of its kernel says so. */
export function TestBadge(props: { state: ResultsState; device: string; test: TestRef }) {
  const { state, device, test } = props;
  const shown = testState(state, device, test);
  const former = shown === "stale" ? state.verdicts[device]?.[test.id]?.verdict : undefined;
  return (
    <VerdictBadge
      state={shown}
      word={former === undefined ? undefined : `${WORD[asState(former)]}, ${OLDER}`}
    />
  );
}
