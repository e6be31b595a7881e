/** The list of tests: narrowed by verdict and words, drawn a hundred at a time, opened one by one. */

import type { RunDocument, RunTest } from "../src/api/generated/results";
import { grouped } from "../src/model/format";
import { ofBound } from "../src/model/headline";
import { GLYPH } from "../src/model/verdicts";
import { CHOICES, type Choice, chosen, matches } from "./data";
import { detail } from "./detail";
import { el } from "./dom";
import type { Place } from "./matrix";

const PAGE = 100;

export class TestList {
  readonly element = el("section", { id: "tests" });
  private readonly select = el("select", { id: "choice" });
  private readonly search = el("input", {
    id: "words",
    type: "search",
    placeholder: "id, kernel, device, message",
  });
  private readonly count = el("span", { class: "muted", role: "status" });
  private readonly place = el("span");
  private readonly rows = el("div", { class: "stack rows" });
  private readonly more = el("button", { type: "button", class: "more" });
  private readonly devices: Map<string, string>;
  private readonly suites: Map<string, RunDocument["suites"][number]>;
  private only: Place | null = null;
  private found: RunTest[] = [];
  private drawn = 0;

  constructor(private readonly document: RunDocument) {
    this.devices = new Map(document.devices.map((device) => [device.id, device.requested]));
    this.suites = new Map(document.suites.map((suite) => [suite.id, suite]));
    const names: Partial<Record<Choice, string>> = {
      attention: "needs attention",
      "fails run": "fails the run",
    };
    for (const choice of CHOICES) {
      const many = document.tests.filter((test) => chosen(test, choice)).length;
      if (many > 0 || choice === "all")
        this.select.append(el("option", { value: choice }, `${names[choice] ?? choice} (${grouped(many)})`));
    }
    this.select.addEventListener("change", () => this.narrow());
    this.search.addEventListener("input", () => this.narrow());
    this.more.addEventListener("click", () => this.draw());
    this.element.append(
      el("h2", {}, "Tests"),
      el(
        "div",
        { class: "row filter" },
        el("label", { for: "choice" }, "show"),
        this.select,
        el("label", { for: "words" }, "with"),
        this.search,
        this.place,
        this.count,
      ),
      this.rows,
      this.more,
    );
    this.narrow();
  }

  /** All tests of one cell of the matrix. */
  showPlace(place: Place): void {
    this.only = place;
    this.select.value = "all";
    this.search.value = "";
    this.narrow();
    this.element.scrollIntoView({ behavior: "smooth" });
  }

  showChoice(choice: Choice): void {
    this.only = null;
    this.select.value = choice;
    this.narrow();
    this.element.scrollIntoView({ behavior: "smooth" });
  }

  private narrow(): void {
    const choice = CHOICES.find((known) => known === this.select.value) ?? "all";
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const { only } = this;
    this.found = this.document.tests.filter(
      (test) =>
        (!only ||
          (test.kernel === only.kernel && test.suite === only.suite && test.device === only.device)) &&
        chosen(test, choice) &&
        matches(test, words, this.devices.get(test.device) ?? ""),
    );
    this.place.replaceChildren(...(only ? [this.onlyButton(only)] : []));
    this.count.textContent = this.found.length === 1 ? "1 test" : `${grouped(this.found.length)} tests`;
    this.rows.replaceChildren();
    this.drawn = 0;
    this.draw();
  }

  private onlyButton(only: Place): HTMLElement {
    const text = `${only.kernel} on ${this.devices.get(only.device) ?? only.device}`;
    const button = el("button", { type: "button", title: "show all kernels again" }, `${text} ×`);
    button.addEventListener("click", () => {
      this.only = null;
      this.narrow();
    });
    return button;
  }

  private draw(): void {
    const next = this.found.slice(this.drawn, this.drawn + PAGE);
    this.rows.append(...next.map((test) => this.row(test)));
    this.drawn += next.length;
    if (this.found.length === 1) this.rows.querySelector("details")?.setAttribute("open", "");
    const rest = this.found.length - this.drawn;
    this.more.hidden = rest === 0;
    this.more.textContent = `${grouped(Math.min(PAGE, rest))} more of ${grouped(rest)}`;
  }

  private row(test: RunTest): HTMLElement {
    const suite = this.suites.get(test.suite);
    const marks = [test.flaky && "flaky", test.outcome !== test.verdict && test.outcome].filter(Boolean);
    const row = el(
      "details",
      { class: "test" },
      el(
        "summary",
        {},
        el("span", { class: `verdict is-${test.verdict}` }, `${GLYPH[test.verdict] ?? "?"} ${test.verdict}`),
        ...marks.map((mark) => el("span", { class: "verdict is-edited" }, mark)),
        el("code", {}, test.id),
        el("strong", { class: "clip" }, test.kernel),
        el("span", { class: "muted" }, `on ${this.devices.get(test.device) ?? test.device}`),
        this.document.suites.length > 1 && suite ? el("span", { class: "muted" }, suite.id) : null,
        test.mismatched > 0 ? el("b", {}, ofBound(test)) : null,
        el("span", { class: "first-line muted clip" }, test.message.split("\n", 1)[0]?.slice(0, 300)),
      ),
    );
    row.addEventListener("toggle", () => {
      if (row.open && row.childElementCount === 1) row.append(detail(test, suite));
    });
    return row;
  }
}
