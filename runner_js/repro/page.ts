/** A test as a page, in its own file or behind a shared link: what is shown before, while and after it runs. */
import type { Outcome, Repro, View } from "./types";
import { lostItsDevice, numbersOf, statement, withoutRun } from "./verdict";
import { type Actions, render } from "./view";

const CAREFUL =
  "Where it was reported this kernel hung or lost the GPU device. " +
  "It may freeze the display for a while: save your work first.";

/** Runs the test at once, unless that cost the device where it was reported. `shown` is told of each new state. */
export function openPage(
  root: HTMLElement,
  repro: Repro,
  runTest: () => Promise<Outcome>,
  shown: (view: View) => void,
  actions: Omit<Actions, "run"> = {},
): void {
  const show = (state: View["state"], text: string, outcome: Outcome | null = null) => {
    const here = outcome && numbersOf(outcome);
    document.body.dataset.verdict = here?.verdict ?? "";
    document.body.dataset.reproduced = here ? statement(repro.report, here).reproduced : "";
    const view = { state, text, outcome };
    render(root, repro, view, { ...actions, run });
    shown(view);
    document.body.dataset.state = state;
  };
  const run = async () => {
    show("running", "Compiling and running the kernel.");
    const { variants, unsupported } = repro.kernel;
    const message = unsupported ?? "the kernel has no variant";
    show("done", "", variants.length ? await runTest() : withoutRun({ kind: "unsupported", message }));
  };
  // What is folded is printed too.
  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("details")) folded.open = true;
  });
  if (lostItsDevice(repro)) show("waiting", CAREFUL);
  else void run();
}
