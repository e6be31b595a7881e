import type { State } from "../model/verdicts";

/** Node id -> what happened to it on the chosen device. */
export type NodeStates = ReadonlyMap<string, State>;
