import type { DeviceDocument } from "../api/generated/results";
import type { GraphNode, KernelNow, SuiteDetail } from "../api/types";
import type { ResultsState } from "../model/results";
import type { LiveResults, Tried } from "../state/use-results";

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

/** Runs kernels as they are now on the devices that are chosen. */
export interface Rerun {
  /** Their names. */
  devices: string[];
  possible: boolean;
  /** Gives what went wrong. */
  start: (kernels: string[], tried?: Tried) => Promise<string | null>;
  know: LiveResults["know"];
  /** The page has written a kernel. */
  wrote: (kernel: string, now: KernelNow) => void;
}
