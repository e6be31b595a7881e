/** The page behind a shared link: loads the test, has the worker run it, shows what came out beside the report. */
import "../../../kit/kit.css";
import "../../../repro/repro.css";
import type { Outcome, Repro, View } from "../../../repro/types";
import { lostItsDevice, numbersOf, statement } from "../../../repro/verdict.js";
import { button, copyText, el, plainResult, render } from "../../../repro/view.js";
import { type Answer, type Request, withoutOutcome, withResult } from "./messages";

const GONE = "This link is unknown, was revoked or has expired: ask whoever sent it for a new one.";
const CAREFUL =
  "Where it was reported this kernel hung or lost the GPU device. " +
  "It may freeze the display for a while: save your work first.";

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

function setState(state: string, outcome: Outcome | null): void {
  window.tapmlShare = { state, outcome };
  document.body.dataset.state = state;
}

function broken(message: string): void {
  setState("error", null);
  document.title = "no test · tapml";
  const card = el("section.outcome.is-error", el("p.word", "No test here"), el("p.message", message));
  card.setAttribute("role", "alert");
  root.replaceChildren(card);
}

class Page {
  private readonly view: View = { state: "waiting", text: CAREFUL, outcome: null };
  private readonly extra: HTMLElement[];

  constructor(private readonly shared: Shared) {
    const save = el("a", "Save as one HTML file");
    save.setAttribute("href", `${path}/repro.html`);
    save.setAttribute("download", "");
    const copy = button("Copy issue text", () => void this.copyIssue(copy));
    this.extra = [save, copy];
    const { expires } = shared;
    if (expires)
      this.extra.push(el("span.muted", `This link is good until ${new Date(expires).toLocaleString()}.`));
  }

  begin(): void {
    if (lostItsDevice(this.shared.repro)) this.show();
    else this.run();
  }

  private run(): void {
    const { repro } = this.shared;
    Object.assign(this.view, { state: "running", text: "Compiling and running the kernel.", outcome: null });
    this.show();
    if (!repro.kernel.variants.length) {
      this.ended(withoutOutcome("unsupported", repro.kernel.unsupported ?? "the kernel has no variant"));
      return;
    }
    worker.onmessage = ({ data }: MessageEvent<Answer>) => this.ended(data.outcome);
    worker.onerror = ({ message }) => {
      this.ended(withoutOutcome("internal", `The worker failed: ${message || "its script was not loaded"}.`));
    };
    worker.postMessage({ base: location.origin + path, repro } satisfies Request);
  }

  private ended(outcome: Outcome): void {
    Object.assign(this.view, { state: "done", outcome });
    this.show();
  }

  private show(): void {
    const { repro } = this.shared;
    const { state, outcome } = this.view;
    render(root, repro, this.view, {
      run: () => this.run(),
      more: this.extra,
      link: ({ sha256 }) => `${path}/blobs/${encodeURIComponent(sha256)}`,
    });
    const here = outcome && numbersOf(outcome);
    document.body.dataset.verdict = here?.verdict ?? "";
    document.body.dataset.reproduced = here ? statement(repro.report, here).reproduced : "";
    setState(state, outcome);
  }

  private async copyIssue(pressed: HTMLButtonElement): Promise<void> {
    const response = await fetch(`${path}/issue.md`);
    const { outcome } = this.view;
    const issue = response.ok ? await response.text() : GONE;
    const text = outcome ? withResult(issue, plainResult(this.shared.repro, outcome)) : issue;
    await copyText(text, pressed);
  }
}

// What is folded is printed too.
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
});
loading.then(
  (shared) => new Page(shared).begin(),
  (cause: unknown) => {
    broken(
      cause instanceof TypeError ? "The server could not be reached: reload." : (cause as Error).message,
    );
  },
);
