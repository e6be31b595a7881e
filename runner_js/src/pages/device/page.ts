/** The page: starts the worker and shows what it tells. */
import "../../../kit/kit.css";
import "../../../kit/column.css";
import "./page.css";
import {
  type Joined,
  type LogLine,
  type RunnerState,
  type Snapshot,
  type Start,
  startOf,
  type WorkerMessage,
} from "../../session/view";

const STATE_TEXT: Record<RunnerState, string> = {
  connecting: "Connecting…",
  ready: "Ready",
  busy: "Running",
  unavailable: "No WebGPU here",
  disconnected: "Server not reachable, trying again…",
};

const LOG_LINES = 200;
const CHECK_MS = 5000;
const SILENT_CHECKS = 4;

declare global {
  interface Window {
    /** For tests and for the console. */
    tapmlRunner: { state: RunnerState; snapshot: Snapshot | null };
  }
}
window.tapmlRunner = { state: "connecting", snapshot: null };

function part(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
}

function element(name: string, text: string): HTMLElement {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

function show(snapshot: Snapshot): void {
  const { state } = snapshot;
  window.tapmlRunner = { state, snapshot };
  document.body.dataset.state = state;
  document.title = `${titleOf(snapshot)} · tapml device`;
  part("state-text").textContent = [STATE_TEXT[state], snapshot.name, snapshot.device]
    .filter(Boolean)
    .join(" · ");
  part("problem").textContent = snapshot.problem ?? "";
  part("problem").hidden = snapshot.problem === null;
  showTask(snapshot);
  showGpu(snapshot);
}

function titleOf({ state, task }: Snapshot): string {
  if (state !== "busy" || !task?.total) return state;
  return `${task.done} of ${task.total}`;
}

function showTask({ state, task }: Snapshot): void {
  const bar = part("task-progress") as HTMLProgressElement;
  bar.hidden = task === null;
  if (task) {
    part("task-title").textContent = task.title;
    part("task-detail").textContent = task.detail;
    if (task.total) {
      bar.max = task.total;
      bar.value = task.done;
    } else {
      // Without a value the bar says "under way".
      bar.removeAttribute("value");
    }
  } else {
    part("task-title").textContent = state === "unavailable" ? "Nothing can run here." : "Waiting for work.";
    part("task-detail").textContent = "";
  }
}

let shownGpu = "";

function showGpu({ adapter, features, limits }: Snapshot): void {
  const shown = JSON.stringify([adapter, features, limits]);
  if (shown === shownGpu) return;
  shownGpu = shown;
  const facts = Object.entries(adapter ?? {}).filter(([, value]) => value);
  if (!facts.length) facts.push(["adapter", adapter ? "not named by this browser" : "none"]);
  part("adapter").replaceChildren(
    ...facts.flatMap(([name, value]) => [element("dt", name), element("dd", value)]),
  );
  part("features").replaceChildren(...features.map((feature) => element("li", feature)));
  part("feature-count").textContent = String(features.length);
  const rows = Object.entries(limits).map(([name, value]) => {
    const row = document.createElement("tr");
    row.append(element("td", name), element("td", value.toLocaleString("en")));
    return row;
  });
  part("limits").replaceChildren(...rows);
  part("limit-count").textContent = String(rows.length);
}

function log({ level, text }: LogLine): void {
  const list = part("log");
  const region = part("log-region");
  const atEnd = region.scrollHeight - region.scrollTop - region.clientHeight < 20;
  const line = element("li", ` ${text}`);
  line.className = level;
  line.prepend(element("time", new Date().toLocaleTimeString()));
  list.append(line);
  while (list.childElementCount > LOG_LINES) list.firstElementChild?.remove();
  if (atEnd) region.scrollTop = region.scrollHeight;
}

const start = startOf(new URL(location.href));
withoutToken();

/** The cookie carries the token from here on: neither address bar nor history need to show it. */
function withoutToken(): void {
  const address = new URL(location.href);
  if (!address.searchParams.has("token") && !address.searchParams.has("pair")) return;
  address.searchParams.delete("token");
  address.searchParams.delete("pair");
  history.replaceState(null, "", address);
}

const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module", name: "tapml device" });
let joined: Joined | null = null;
let silentChecks = 0;

/**
 * A worker can end without a word. It says something every two seconds; long work may delay that, and a machine that
 * slept runs its timers first, which is why checks are counted and not time.
 */
setInterval(() => {
  silentChecks++;
  if (silentChecks <= SILENT_CHECKS) return;
  takeLeave();
  location.reload();
}, CHECK_MS);

worker.addEventListener("message", ({ data }: MessageEvent<WorkerMessage>) => {
  silentChecks = 0;
  if (data.kind === "snapshot") show(data.snapshot);
  else if (data.kind === "joined") joined = data;
  else if (data.kind === "log") log(data);
});
worker.addEventListener("error", (event) => {
  log({ level: "error", text: `the worker failed: ${event.message || "its script could not be loaded"}` });
  // A worker that failed serves nobody any more; one that only threw somewhere goes on.
  if (!event.message) takeLeave();
});
worker.postMessage({ ...start, token: null } satisfies Start);

/** Without it the server would wait for a page that was closed to come back. */
function takeLeave(): void {
  if (!joined) return;
  const { device, session } = joined;
  joined = null;
  void fetch(`/api/devices/${encodeURIComponent(device)}/leave`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Tapml": "1" },
    body: JSON.stringify({ session }),
    keepalive: true,
  }).catch(() => {});
}

addEventListener("pagehide", takeLeave);
// Out of the browser's back/forward cache the page would come back as one that has left.
addEventListener("pageshow", ({ persisted }) => persisted && location.reload());
