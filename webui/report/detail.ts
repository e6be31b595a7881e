/** One test, opened: everything that is known of it. */

import type { Diagnostic, OutputElement, RunSuite, RunTest } from "../src/api/generated/results";
import { ulpBars } from "../src/model/charts";
import { error, exact, grouped, number, percent, seconds, tiny } from "../src/model/format";
import { excess, shellQuoted } from "./data";
import { type Child, el, facts, svg } from "./dom";

export function detail(test: RunTest, suite: RunSuite | undefined): HTMLElement {
  const box = el("div", { class: "detail" });
  try {
    box.append(...sections(test, suite).filter((part) => part !== null));
  } catch {
    // What a device reports is not ours to shape: shown as it came.
    box.append(el("pre", { class: "message" }, JSON.stringify(test, null, 1)));
  }
  return box;
}

function sections(test: RunTest, suite: RunSuite | undefined): (HTMLElement | null)[] {
  const compared = test.max_abs_error !== null;
  return [
    test.message === "" ? null : el("pre", { class: `message is-${test.verdict}` }, test.message),
    expectation(test),
    attempts(test),
    diagnostics(test.diagnostics),
    compared ? numbers(test) : null,
    elements(test),
    compared && test.ulp_histogram.length > 0 ? histogram(test.ulp_histogram) : null,
    test.tolerances.length > 0 ? tolerances(test) : null,
    evidence(test),
    facts(
      [
        ["node", test.node],
        ["step", test.step],
        ["variant", test.variant],
        ["kernel", test.edited && "run with edited WGSL"],
        ...(["fetch", "compile", "run", "gpu", "compare"] as const)
          .filter((part) => test.seconds[part] !== undefined)
          .map((part) => [part, seconds(test.seconds[part] ?? 0)] as const),
      ],
      "facts small",
    ),
    suite
      ? el(
          "p",
          { class: "command" },
          "A page of this test alone: ",
          el("code", {}, `tapml export ${shellQuoted(suite.path)} ${shellQuoted(test.id)} --html repro.html`),
        )
      : null,
  ];
}

function expectation(test: RunTest): HTMLElement | null {
  const { expected } = test;
  if (!expected) return null;
  const until = expected.expires ? `until ${expected.expires}` : "without an end";
  return facts(
    [
      ["baseline", `expects ${expected.verdict} ${expected.expired ? `(expired: ${until})` : `(${until})`}`],
      ["reason", expected.reason],
      ["now", test.outcome === "fixed" && "better: record it with --update-baseline"],
    ],
    "facts box",
  );
}

function attempts(test: RunTest): HTMLElement | null {
  if (test.attempts.length < 2) return null;
  const list = el("ol", { class: "attempts" });
  for (const earlier of test.earlier) list.append(el("li", {}, `${earlier.verdict}: ${earlier.message}`));
  list.append(el("li", {}, test.message === "" ? test.verdict : `${test.verdict}: ${test.message}`));
  return el("section", {}, el("h4", {}, test.flaky ? "Attempts (flaky)" : "Attempts"), list);
}

function diagnostics(found: readonly Diagnostic[]): HTMLElement | null {
  if (!Array.isArray(found) || found.length === 0) return null;
  const list = el("ul", { class: "diagnostics" });
  for (const item of found) {
    // Tabs as they are, so that the mark stays under the column meant.
    const mark = `${String(item.source ?? "")
      .slice(0, Math.max(0, item.column - 1))
      .replace(/[^\t]/g, " ")}^`;
    list.append(
      el(
        "li",
        {},
        el("code", {}, `${item.file}:${item.line}:${item.column}`),
        " ",
        el("strong", {}, item.severity),
        ` ${item.message}`,
        item.source ? el("pre", {}, `${item.source}\n${mark}`) : null,
      ),
    );
  }
  return el("section", {}, el("h4", {}, "WGSL compiler"), list);
}

function numbers(test: RunTest): HTMLElement {
  return facts(
    [
      [
        "out of tolerance",
        `${grouped(test.mismatched)} of ${grouped(test.total)} (${percent(test.mismatched, test.total)})`,
      ],
      ["max abs error", error(test.max_abs_error)],
      ["max rel error", error(test.max_rel_error)],
      ["max ULP", number(test.max_ulp)],
      ["unbounded", test.unbounded > 0 && `${grouped(test.unbounded)} of ${grouped(test.total)}`],
      ["other choices among equals", test.tied > 0 && grouped(test.tied)],
      ["NaN", test.nan > 0 && grouped(test.nan)],
      ["Inf", test.inf > 0 && grouped(test.inf)],
    ],
    "facts numbers",
  );
}

function elements(test: RunTest): HTMLElement | null {
  const rows: [string, OutputElement | null][] = [
    [test.mismatched > 0 ? "first out of tolerance" : "first unbounded", test.first],
    ["worst", test.worst],
  ];
  const body = el("tbody");
  for (const [name, element] of rows) {
    if (!element) continue;
    const over = excess(element, test);
    const output = test.tolerances.length > 1 ? `output ${element.output} ` : "";
    const cells: Child[] = [
      `${output}[${element.index.join(", ")}]`,
      exact(element.expected),
      exact(element.got),
      over ? error(over.difference) : "–",
      over ? error(over.allowed) : "–",
      over ? `${number(over.times, 2)}×` : "–",
    ];
    body.append(el("tr", {}, el("th", { scope: "row" }, name), ...cells.map((cell) => el("td", {}, cell))));
  }
  if (body.childElementCount === 0) return null;
  const heads = ["element", "index", "expected", "got", "difference", "allowed", "of what is allowed"];
  return el(
    "div",
    { class: "scroll-x" },
    el(
      "table",
      { class: "elements" },
      el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
      body,
    ),
  );
}

const BAR = 44;
const HEIGHT = 64;

function histogram(counts: readonly number[]): HTMLElement {
  const bars = ulpBars(counts);
  const said = bars.map((bar) => `${bar.label}: ${bar.count}`).join("; ");
  const picture = svg(
    "svg",
    {
      class: "histogram",
      viewBox: `0 0 ${bars.length * BAR} ${HEIGHT + 34}`,
      width: bars.length * BAR,
      role: "img",
    },
    svg("title", {}, `Elements by ULP distance. ${said}`),
    svg("line", { x1: 0, x2: bars.length * BAR, y1: HEIGHT + 16, y2: HEIGHT + 16 }),
  );
  bars.forEach((bar, at) => {
    const height = bar.height * HEIGHT;
    const x = at * BAR;
    picture.append(
      svg("rect", {
        class: bar.label === "NaN" ? "bad" : null,
        x: x + 3,
        y: HEIGHT + 16 - height,
        width: BAR - 6,
        height,
        rx: 2,
      }),
      svg("text", { x: x + BAR / 2, y: HEIGHT + 11 - height }, bar.count > 0 ? tiny(bar.count) : ""),
      svg("text", { x: x + BAR / 2, y: HEIGHT + 30 }, bar.label),
    );
  });
  return el("figure", { class: "scroll-x" }, el("figcaption", {}, "Elements by ULP distance"), picture);
}

function tolerances(test: RunTest): HTMLElement {
  const section = el("section", {}, el("h4", {}, "Tolerance"));
  test.tolerances.forEach((tolerance, output) => {
    const numbers = `${error(tolerance.absolute)} + ${error(tolerance.relative)} · |expected|`;
    const bound = `|got − expected| ≤ ${tolerance.bound ? "bound of the element" : numbers}`;
    const most = tolerance.bound ? `, at most ${error(tolerance.absolute)}` : null;
    section.append(
      el("p", {}, test.tolerances.length > 1 ? `output ${output}: ` : null, el("code", {}, bound), most),
      el("ul", { class: "reasons" }, ...tolerance.reasons.map((reason) => el("li", {}, reason))),
    );
  });
  return section;
}

function evidence(test: RunTest): HTMLElement | null {
  const said = test.error;
  if (!said) return null;
  const types = Array.isArray(said.arguments)
    ? said.arguments.map((type) => `${type.dtype}[${type.shape.join(", ")}]`).join(", ")
    : null;
  const pairs = [
    ["kind", said.kind],
    ["GPU message", said.gpu_message],
    ["device lost", said.lost_reason],
    ["arguments", types],
    ["stack", said.stack],
  ] as const;
  return el(
    "section",
    {},
    el("h4", {}, "What the device said"),
    facts(
      pairs.map(([name, text]) => [name, text ? el("pre", {}, text) : null] as const),
      "evidence",
    ),
  );
}
