/** The page of `tapml test --html` and of `tapml locate --html`: unpacks the document it carries and draws it. */

import type { RunDocument } from "../src/api/generated/results";
import { date, distrust, grouped, seconds } from "../src/model/format";
import { type Choice, COUNTED, type Report, unpack } from "./data";
import { devices } from "./devices";
import { el, facts } from "./dom";
import { drawLocate } from "./locate";
import { matrix } from "./matrix";
import { TestList } from "./tests";

function drawRun(root: HTMLElement, report: Report): void {
  const found = report.document;
  const list = new TestList(found);
  const title = `tapml test: ${found.suites.map((suite) => suite.id).join(", ")}`;
  document.title = title;
  root.replaceChildren(
    header(title, found),
    counts(found, (choice) => list.showChoice(choice)),
    el(
      "section",
      {},
      el("h2", {}, "Kernels"),
      matrix(found, (place) => list.showPlace(place)),
    ),
    list.element,
    devices(report),
    suites(found),
  );
}

function header(title: string, found: RunDocument): HTMLElement {
  const failing = found.summary.fails_run;
  const [state, word] = found.interrupted
    ? ["unsupported", `– interrupted, ${grouped(found.summary.not_run)} tests did not run`]
    : failing > 0
      ? ["fail", `✗ ${grouped(failing)} of ${grouped(found.summary.total)} fail the run`]
      : ["pass", `✓ ${grouped(found.summary.total)} tests, good`];
  return el(
    "header",
    {},
    el("h1", {}, title),
    el("span", { class: `verdict is-${state}`, id: "state" }, word),
    facts(
      [
        ["when", date(found.created)],
        ["took", seconds(found.summary.seconds)],
        ["shard", found.shard],
        ["baseline", found.baseline],
        ["tapml", found.tapml],
      ],
      "facts",
    ),
    ...found.suites.flatMap((suite) =>
      distrust(suite.id, suite.doubts).map((line) => el("p", { class: "row problem" }, line)),
    ),
  );
}

function counts(found: RunDocument, choose: (choice: Choice) => void): HTMLElement {
  const bar = el("div", { class: "row counts" });
  for (const name of COUNTED) {
    const many = found.summary[name];
    if (!many && name !== "pass") continue;
    const button = el(
      "button",
      { type: "button", class: `count is-${name}` },
      el("b", {}, grouped(many)),
      ` ${name}`,
    );
    button.addEventListener("click", () => choose(name));
    bar.append(button);
  }
  return bar;
}

function suites(found: RunDocument): HTMLElement {
  const section = el("section", {}, el("h2", {}, "Suites"));
  for (const suite of found.suites)
    section.append(
      el(
        "article",
        { class: "card" },
        el("h3", {}, suite.id),
        suite.synthetic ? el("span", { class: "verdict is-edited" }, "synthetic inputs") : null,
        facts(
          [
            ["name", suite.name !== suite.id && suite.name],
            ["path", suite.path],
            ["tests of this run", suite.tests],
            ["edited kernels", suite.edited_kernels.join(", ")],
            ["digest", suite.digest],
          ],
          "facts",
        ),
      ),
    );
  return section;
}

async function main(): Promise<void> {
  const root = document.getElementById("report") as HTMLElement;
  try {
    const { document: found, screenshots } = await unpack(document.getElementById("data")?.textContent ?? "");
    if (found.format === "tapml.locate/1") drawLocate(root, found);
    else drawRun(root, { document: found, screenshots });
    document.body.dataset.state = "ready";
  } catch (problem) {
    root.replaceChildren(el("p", { class: "row problem" }, `The report cannot be read: ${problem}`));
    document.body.dataset.state = "damaged";
    throw problem;
  }
}

void main();
