/** The page behind a shared link: loads the test, has the worker run it, shows what came out beside the report. */
import "../../../kit/kit.css";
import "../../../kit/column.css";
import "../../../kit/listing.css";
import "../../../repro/repro.css";
import { openPage } from "../../../repro/page";
import type { Outcome, Repro } from "../../../repro/types";
import { withoutRun } from "../../../repro/verdict";
import { button, copyText, el, plainResult } from "../../../repro/view";
import { type Answer, type Request, withResult } from "./messages";

const GONE = "This link is unknown, was revoked or has expired: ask whoever sent it for a new one.";

declare global {
  interface Window {
    /** For tests and for the console. */
    tapmlShare: { state: string; outcome: Outcome | null };
  }
}

interface Shared {
  repro: Repro;
  expires: string | null;
}

const path = /^\/s\/[^/]+/.exec(location.pathname)?.[0] ?? "";
const root = document.getElementById("page") as HTMLElement;

// Both at once: the test comes from the server while the GPU starts.
const loading = load();
const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module", name: "tapml share" });

async function load(): Promise<Shared> {
  const response = await fetch(`${path}/test`);
  if (response.ok) return (await response.json()) as Shared;
  const body: unknown = await response.json().catch(() => null);
  const said = body && typeof body === "object" && "error" in body ? String(body.error) : "";
  throw new Error(said || (response.status === 404 ? GONE : `The server answered ${response.status}.`));
}

function setState({ state, outcome }: Window["tapmlShare"]): void {
  window.tapmlShare = { state, outcome };
  document.body.dataset.state = state;
}

function broken(message: string): void {
  setState({ state: "error", outcome: null });
  document.title = "no test · tapml";
  const card = el("section.outcome.is-error", el("p.word", "No test here"), el("p.message", message));
  card.setAttribute("role", "alert");
  root.replaceChildren(card);
}

function open({ repro, expires }: Shared): void {
  const save = el("a", "Save as one HTML file");
  save.setAttribute("href", `${path}/repro.html`);
  save.setAttribute("download", "");
  const copy = button("Copy issue text", () => void copyIssue(repro, copy));
  const until = expires && `This link is good until ${utc(expires)}.`;
  openPage(root, repro, () => run(repro), setState, {
    more: [save, copy, until && el("span.muted", until)],
    link: ({ sha256 }) => `${path}/blobs/${encodeURIComponent(sha256)}`,
  });
}

/** "2027-02-25 12:47 UTC" */
function utc(time: string): string {
  return `${new Date(time).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

function run(repro: Repro): Promise<Outcome> {
  return new Promise((resolve) => {
    worker.onmessage = ({ data }: MessageEvent<Answer>) => resolve(data.outcome);
    worker.onerror = ({ message }) => {
      const why = `The worker failed: ${message || "its script was not loaded"}.`;
      resolve(withoutRun({ kind: "internal", message: why }));
    };
    worker.postMessage({ base: location.origin + path, repro } satisfies Request);
  });
}

async function copyIssue(repro: Repro, pressed: HTMLButtonElement): Promise<void> {
  const response = await fetch(`${path}/issue.md`);
  const { outcome } = window.tapmlShare;
  const issue = response.ok ? await response.text() : GONE;
  await copyText(outcome ? withResult(issue, plainResult(repro, outcome)) : issue, pressed);
}

loading.then(open, (cause: unknown) => {
  broken(cause instanceof TypeError ? "The server could not be reached: reload." : (cause as Error).message);
});
