import type { JobKind } from "../api/types";
import type { State } from "../model/verdicts";

/** What the page looks at: each kind of job, and a text that is written, has its own pane and its own colours of the graph. */
export type View = JobKind | "generation" | "compare";

/** Node id -> what happened to it on the chosen device. */
export type NodeStates = ReadonlyMap<string, State>;
