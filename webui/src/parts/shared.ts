import type { DeviceDocument } from "../api/generated/results";
import type { GraphNode, SuiteDetail } from "../api/types";
import type { ResultsState } from "../model/results";

/** What the panes of a suite's page share. */
export interface Shared {
  suite: SuiteDetail;
  state: ResultsState;
  /** The state's devices, in the order in which they are shown. */
  devices: readonly DeviceDocument[];
  /** The chosen device, and the selected node. */
  device: string | null;
  node: GraphNode | null;
  choose: (device: string) => void;
  select: (node: string | null, device?: string) => void;
}
