/** The worker: the socket and the GPU, away from the page so that neither waits for the other. */
import { browserPlatform } from "../../platform/platform";
import { withProfile } from "../../profiles/profiles";
import { Session } from "../../session/session";
import type { Snapshot, Start, View, WorkerMessage } from "../../session/view";

const SHOW_EVERY_MS = 100;
const ALIVE_MS = 2000;

let latest: Snapshot | null = null;
let timer: ReturnType<typeof setTimeout> | null = null;

function post(message: WorkerMessage): void {
  // `self` is typed as a window here; a worker's postMessage has no target origin.
  (self as unknown as Pick<Worker, "postMessage">).postMessage(message);
}

function flush(): void {
  timer = null;
  if (latest) post({ kind: "snapshot", snapshot: latest });
}

/**
 * Verdicts and small calls come by the hundred a second; the page needs ten. Other changes of state are shown at once.
 */
const view: View = {
  show(snapshot) {
    const states = [snapshot.state, latest?.state];
    const changed = states[0] !== states[1] && !states.includes("busy");
    latest = snapshot;
    if (changed) {
      if (timer !== null) clearTimeout(timer);
      flush();
    } else {
      timer ??= setTimeout(flush, SHOW_EVERY_MS);
    }
  },
  joined({ device, session }) {
    post({ kind: "joined", device, session });
  },
  log(level, text) {
    post({ kind: "log", level, text });
  },
};

setInterval(() => post({ kind: "alive" }), ALIVE_MS);

self.addEventListener(
  "message",
  ({ data }: MessageEvent<Start>) => {
    void new Session(withProfile(browserPlatform(), data.profile), data, view).begin();
  },
  { once: true },
);
