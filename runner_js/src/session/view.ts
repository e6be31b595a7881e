/** What the worker tells the page, and the page the worker. */
import type { AdapterInfo, Welcome } from "../protocol/messages";

export type RunnerState = "connecting" | "ready" | "busy" | "unavailable" | "disconnected";

export interface Snapshot {
  state: RunnerState;
  /** "Chromium 156" */
  name: string;
  /** Id given by the server. */
  device: string | null;
  adapter: AdapterInfo | null;
  features: string[];
  limits: Record<string, number>;
  /** Sentence that explains `unavailable`, or why the server refuses this page. */
  problem: string | null;
  task: Task | null;
}

/** What is running now; `total` 0 while it is not known. */
export interface Task {
  title: string;
  detail: string;
  done: number;
  total: number;
}

export interface LogLine {
  level: "info" | "warning" | "error";
  text: string;
}

/** Who this is to the server; a page that is closed takes its leave with it. */
export type Joined = Pick<Welcome, "device" | "session">;

export type WorkerMessage =
  | { kind: "snapshot"; snapshot: Snapshot }
  | ({ kind: "joined" } & Joined)
  | { kind: "alive" }
  | ({ kind: "log" } & LogLine);

export interface Start {
  /** The server's, where its address has one. */
  token: string | null;
  /** What only a runner that the server started was given; says whose place it takes. */
  secret: string | null;
  /** A device profile (profiles/profiles.ts), for tests. */
  profile: string | null;
}

/** By the address of the runner's page; what is behind "#" is not sent to anybody. */
export function startOf(address: URL): Start {
  return {
    token: address.searchParams.get("token"),
    secret: new URLSearchParams(address.hash.slice(1)).get("secret"),
    profile: address.searchParams.get("profile"),
  };
}

/** Where a session shows what it does. */
export interface View {
  show(snapshot: Snapshot): void;
  joined(joined: Joined): void;
  log(level: LogLine["level"], text: string): void;
}
