/** Kernels by suite and device: how many tests, and the worst that came of them. */

import type { RunDocument, RunTest } from "../src/api/generated/results";
import { type Counts, describe, GLYPH, noCounts, worst } from "../src/model/verdicts";
import { el } from "./dom";

export interface Place {
  kernel: string;
  suite: string;
  device: string;
}

interface Cell {
  tests: number;
  counts: Counts;
  failing: number;
  flaky: number;
  outcomes: Set<string>;
}

export function matrix(document: RunDocument, choose: (place: Place) => void): HTMLElement {
  const cells = count(document.tests);
  const columns = document.suites.flatMap((suite) => document.devices.map((device) => ({ suite, device })));
  const shown = columns.filter(({ suite }) => suite.tests > 0);
  const kernels = [...new Set(document.tests.map((test) => test.kernel))];
  const bad = new Map(kernels.map((kernel) => [kernel, 0]));
  for (const test of document.tests)
    if (test.fails_run) bad.set(test.kernel, (bad.get(test.kernel) ?? 0) + 1);
  // What fails stands first; otherwise the model's own order.
  kernels.sort((a, b) => Number((bad.get(b) ?? 0) > 0) - Number((bad.get(a) ?? 0) > 0));
  const edited = new Set(document.suites.flatMap((suite) => suite.edited_kernels));
  const several = document.suites.length > 1;
  const head = el("thead");
  if (several) {
    const row = el("tr", {}, el("td"));
    for (const suite of document.suites.filter(({ tests }) => tests > 0))
      row.append(
        el("th", { scope: "colgroup", colspan: document.devices.length, title: suite.path }, suite.id),
      );
    head.append(row);
  }
  head.append(
    el(
      "tr",
      {},
      el("th", { scope: "col" }, "kernel"),
      ...shown.map(({ device }) => el("th", { scope: "col" }, device.requested)),
    ),
  );
  const body = el("tbody");
  for (const kernel of kernels) {
    const mark = edited.has(kernel) && el("span", { class: "edited" }, " (edited)");
    const row = el("tr", {}, el("th", { scope: "row", class: "clip", title: kernel }, kernel, mark));
    for (const { suite, device } of shown) {
      const cell = cells.get(key({ kernel, suite: suite.id, device: device.id }));
      row.append(
        el("td", {}, cell ? button(cell, { kernel, suite: suite.id, device: device.id }, choose) : null),
      );
    }
    body.append(row);
  }
  return el("div", { class: "scroll-x" }, el("table", { class: "matrix" }, head, body));
}

function button(cell: Cell, place: Place, choose: (place: Place) => void): HTMLElement {
  const state = worst(cell.counts);
  const excused = state !== "pass" && cell.failing === 0 && cell.outcomes.has("expected");
  const counted = state === "pass" ? `${cell.tests}` : `${cell.counts[state]}/${cell.tests}`;
  const notes = [
    excused && "as expected",
    cell.flaky > 0 && `${cell.flaky} flaky`,
    cell.outcomes.has("fixed") && "fixed",
  ].filter(Boolean);
  const element = el(
    "button",
    {
      type: "button",
      class: `cell is-${state}${excused ? " is-excused" : ""}`,
      title: [describe(cell.counts), ...notes].join("; "),
    },
    `${GLYPH[state]} ${counted}`,
    notes.length > 0 ? el("small", {}, ` ${notes.join(", ")}`) : null,
  );
  element.addEventListener("click", () => choose(place));
  return element;
}

function count(tests: readonly RunTest[]): Map<string, Cell> {
  const cells = new Map<string, Cell>();
  for (const test of tests) {
    const at = key(test);
    let cell = cells.get(at);
    if (!cell) {
      cell = { tests: 0, counts: noCounts(), failing: 0, flaky: 0, outcomes: new Set() };
      cells.set(at, cell);
    }
    cell.tests += 1;
    cell.counts[test.verdict] += 1;
    cell.failing += Number(test.fails_run);
    cell.flaky += Number(test.flaky);
    cell.outcomes.add(test.outcome);
  }
  return cells;
}

function key(place: Place): string {
  return JSON.stringify([place.suite, place.device, place.kernel]);
}
