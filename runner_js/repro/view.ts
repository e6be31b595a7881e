/** The page. All texts of the document go in as text, never as HTML. */

import { ofBound } from "../kit/headline";
import { adapter, caret, DASH, distrust, exact, GLYPH, grouped, number, seconds } from "../kit/text";
import type { ErrorMap } from "../src/compare/error_map";
import { placeOf } from "../src/hal/diagnostics";
import { bytesOf, describeType } from "../src/program/dtypes";
import { evaluate } from "../src/program/expressions";
import { storageBindings } from "../src/program/launches";
import type { Comparison, Diagnostic, Expression } from "../src/protocol/messages";
import { toleranceTensors } from "./test";
import type { Device, Numbers, Outcome, Output, Repro, Variant, View } from "./types";
import { numbersOf, statement } from "./verdict";

export type Child = Node | string | null | undefined | Child[];

/** What the buttons do, what stands beside them, and where the text of a file is to be had. */
export interface Actions {
  run: () => void;
  more?: Child[];
  link?: (file: Repro["files"][number]) => string;
}

/** An element: "td.number" is a cell of class "number". */
export function el(name: string, ...children: Child[]): HTMLElement {
  const [tag = "", ...classes] = name.split(".");
  const made = document.createElement(tag);
  made.className = classes.join(" ");
  const add = (child: Child) => {
    if (Array.isArray(child)) child.forEach(add);
    else if (child !== null && child !== undefined && child !== "") made.append(child);
  };
  add(children);
  return made;
}

export function button(text: string, press: () => void): HTMLButtonElement {
  const made = el("button", text) as HTMLButtonElement;
  made.type = "button";
  made.addEventListener("click", press);
  return made;
}

/** Rows with a heading each; a table that is too wide scrolls by itself. The columns of "sides" are equally wide. */
function table(head: string[], rows: Child[][], kind: "" | ".sides" = ""): HTMLElement {
  const heading = head.length
    ? el(
        "thead",
        el(
          "tr",
          head.map((text) => (text === "" ? el("td") : el("th", text))),
        ),
      )
    : null;
  const body = rows.map(([name, ...cells]) =>
    el(
      "tr",
      el("th", name),
      cells.map((cell) => el("td", cell)),
    ),
  );
  return el(`div.scroll${kind}`, el("table", heading, el("tbody", body)));
}

/** What scrolls has a tab stop and a name, to be scrolled by keys. */
function scrolling(name: string, label: string, ...children: Child[]): HTMLElement {
  const made = el(name, children);
  made.tabIndex = 0;
  made.setAttribute("role", "region");
  made.setAttribute("aria-label", label);
  return made;
}

function section(title: string, ...children: Child[]): HTMLElement {
  return el("section", el("h2", title), children);
}

function details(open: boolean, summary: Child, ...children: Child[]): HTMLElement {
  const made = el("details", el("summary", summary), children) as HTMLDetailsElement;
  made.open = open;
  return made;
}

function gpuOf(device: Device | null | undefined): string {
  if (!device) return "";
  return adapter(device.adapter) || "not named by the browser";
}

function times(extents: readonly number[]): string {
  return extents.join(" \u00d7 ");
}

function time(value: number | null | undefined): string {
  return typeof value === "number" ? seconds(value) : DASH;
}

function digestText(digest: string): HTMLElement {
  const made = el("code", `${digest.slice(0, 16)}\u2026`);
  made.title = digest;
  return made;
}

function elementText(found: Numbers["first"], repro: Repro): Child {
  if (!found) return DASH;
  const which = repro.outputs.length > 1 ? `output ${found.output} ` : "";
  return [
    el("span.at", `${which}[${found.index.join(", ")}]`),
    " ",
    el("span.got", `got ${exact(found.got)},`),
    " ",
    el("span.got", `expected ${exact(found.expected)}`),
    // Reports of earlier versions do not tell it.
    found.bound === undefined || found.bound === null
      ? null
      : [" ", el("span.got", found.bound === "Infinity" ? "unbounded" : `within ${number(found.bound)}`)],
  ];
}

function badge(verdict: string): HTMLElement {
  const known = Object.hasOwn(GLYPH, verdict) ? (verdict as keyof typeof GLYPH) : "error";
  return el(`span.verdict.is-${known}`, `${GLYPH[known]} ${verdict}`);
}

/** The whole page, new. */
export function render(root: HTMLElement, repro: Repro, view: View, actions: Actions): void {
  const here = view.outcome && numbersOf(view.outcome);
  const { kernel, test, model, outputs } = repro;
  const variant = kernel.variants.find(({ name }) => name === here?.variant) ?? kernel.variants[0];
  document.title = `${here ? here.verdict.toUpperCase() : view.state}: ${test.kernel} \u00b7 tapml`;
  const compared = view.outcome?.outputs ?? [];
  root.replaceChildren(
    el(
      "header",
      el("p.muted", `One operator of ${model.title}, as a test of WebGPU`),
      el(
        "h1",
        test.kernel,
        repro.files.some(({ edited }) => edited) ? el("span.verdict.is-edited", "edited kernel") : null,
      ),
      el(
        "p.muted",
        `${outputs.map(describeType).join(", ")} \u00b7 test ${test.id} \u00b7 suite ${repro.suite.name}`,
      ),
      doubtsOf(repro).map((line) => el("p.doubt", line)),
    ),
    verdictCard(repro, view, here, actions),
    here || repro.report ? comparison(repro, view.outcome, here) : "",
    compared.length > 1 ? section("Outputs", table(...perOutput(repro, compared))) : "",
    view.outcome?.maps.length
      ? section(
          "Where it is wrong",
          view.outcome.maps.map((map) => picture(map, outputs[map.output] as Output)),
        )
      : "",
    here?.diagnostics.length ? section("The compiler says", here.diagnostics.map(diagnosticText)) : "",
    section("Tolerance", tolerances(outputs)),
    variant ? section("Launch", launches(repro, variant)) : "",
    section("Tensors", tensors(repro)),
    section("Origin", provenance(repro)),
    kernelText(repro, variant, here?.diagnostics ?? [], actions.link),
  );
}

function doubtsOf({ suite }: Repro): string[] {
  return distrust(suite.name, suite.doubts);
}

function verdictCard(repro: Repro, view: View, here: Numbers | null, actions: Actions): HTMLElement {
  const state = here?.verdict ?? "running";
  const said = here && statement(repro.report, here);
  const copy = button("Copy result", () => copyText(plainResult(repro, view.outcome), copy));
  const waiting = view.state === "waiting";
  const made = el(
    `section.outcome.is-${waiting ? "unsupported" : state}`,
    el("p.word", waiting ? "Not run" : here ? `${GLYPH[state]} ${state}` : `${GLYPH.running} running`),
    here && state !== "pass" && headline(repro, here)
      ? el("p.statement", `Worst element: ${headline(repro, here)}.`)
      : null,
    said ? el("p.statement", said.text) : null,
    here
      ? el("p.message", here.message || (state === "pass" ? "Every element is inside the tolerance." : ""))
      : null,
    here ? null : el("p.message", view.text),
    el(
      "p.buttons",
      view.state === "running" ? null : button(waiting ? "Run it anyway" : "Run again", actions.run),
      here ? copy : null,
      actions.more,
    ),
  );
  made.setAttribute("role", "status");
  return made;
}

/** "354 × its bound"; null where nothing was compared. */
function headline({ outputs }: Repro, { worst, max_abs_error }: Numbers): string | null {
  return ofBound({ worst, max_abs_error, tolerances: outputs.map(({ tolerance }) => tolerance) });
}

/** Reported beside here. */
function comparison(repro: Repro, outcome: Outcome | null, here: Numbers | null): HTMLElement {
  const { report } = repro;
  const both = [
    { device: report?.device, numbers: report?.result },
    { device: outcome?.device, numbers: here },
  ].slice(report ? 0 : 1);
  const row = (name: string, cell: (numbers: Numbers) => Child): Child[] => [
    name,
    ...both.map(({ numbers }) => (numbers ? cell(numbers) : DASH)),
  ];
  const rows = [
    row("Verdict", ({ verdict }) => badge(verdict)),
    row("Of its bound, the worst element", (numbers) => headline(repro, numbers) ?? DASH),
    ["Browser", ...both.map(({ device }) => device?.name ?? DASH)],
    ["GPU", ...both.map(({ device }) => gpuOf(device) || DASH)],
    row("Error", ({ verdict, error, message }) =>
      verdict === "error" ? [error && el("b", error.kind, " "), message] : DASH,
    ),
    row("Outside tolerance", ({ mismatched, total }) => (total ? `${mismatched} of ${total}` : DASH)),
    row("Unbounded", ({ unbounded, total }) => (unbounded ? `${unbounded} of ${total}` : DASH)),
    row("Other choices among equals", ({ tied, total }) => (tied ? `${tied} of ${total}` : DASH)),
    row("NaN, Inf", ({ nan, inf }) => (nan || inf ? `${nan}, ${inf}` : DASH)),
    row("Largest error", ({ max_abs_error }) => number(max_abs_error)),
    row("Relative", ({ max_rel_error }) => number(max_rel_error)),
    row("In ULP", ({ max_ulp }) => number(max_ulp)),
    row("First wrong element", ({ mismatched, first }) => (mismatched ? elementText(first, repro) : DASH)),
    row("First unbounded element", ({ mismatched, unbounded, first }) =>
      unbounded && !mismatched ? elementText(first, repro) : DASH,
    ),
    row("Worst element", ({ worst }) => elementText(worst, repro)),
    row("Variant", ({ variant }) => variant ?? DASH),
    row("Time", ({ total, seconds: { compile, run, gpu } }) =>
      total ? `compile ${time(compile)}, run ${time(run)}${gpu ? ` (GPU ${time(gpu)})` : ""}` : DASH,
    ),
  ].filter(([, ...cells]) => cells.some((cell) => cell !== DASH));
  const heads = report ? ["", `reported ${report.created.slice(0, 10)}`, "here"] : ["", "here"];
  const devices = capabilities(both.map(({ device }) => device));
  const title = report ? "Reported, and here" : "Here";
  return section(title, table(heads, rows, ".sides"), details(false, "Features and limits", devices));
}

function capabilities(devices: (Device | null | undefined)[]): HTMLElement {
  const names = new Set(devices.flatMap((device) => Object.keys(device?.limits ?? {})));
  const features = new Set(devices.flatMap((device) => device?.features ?? []));
  return table(
    [],
    [
      ["user agent", ...devices.map((device) => device?.user_agent ?? DASH)],
      ...[...features].map((name) => [
        name,
        ...devices.map((one) => (one?.features.includes(name) ? "yes" : DASH)),
      ]),
      ...[...names].map((name) => [
        name,
        ...devices.map((one) => (one?.limits[name] === undefined ? DASH : grouped(one.limits[name]))),
      ]),
    ],
  );
}

function perOutput({ outputs }: Repro, compared: readonly Comparison[]): [string[], Child[][]] {
  const rows = compared.map((found, i) => {
    const errors = [found.max_abs_error, found.max_rel_error, found.max_ulp].map((value) => number(value));
    const { mismatched, unbounded, total } = found;
    const counts = [`${mismatched} of ${total}`, unbounded ? `${unbounded} of ${total}` : DASH];
    return [`${i} ${outputs[i]?.name ?? ""}`, ...counts, ...errors];
  });
  return [["output", "outside tolerance", "unbounded", "absolute", "relative", "ULP"], rows];
}

/** Colours of an error map: inside, just outside, a million times the tolerance, NaN or Inf. */
const [INSIDE, LEAST, MOST, STRANGE] = [
  [150, 162, 176],
  [255, 205, 80],
  [190, 0, 40],
  [124, 58, 237],
];

function picture({ width, height, step, cells, output: place }: ErrorMap, output: Output): HTMLElement {
  const canvas = el("canvas") as HTMLCanvasElement;
  [canvas.width, canvas.height] = [width, height];
  const pixels = new ImageData(width, height);
  cells.forEach((level, i) => {
    const share = (level - 1) / 253;
    const ramp = LEAST.map((least, channel) => least + share * ((MOST[channel] as number) - least));
    pixels.data.set([...(level === 0 ? INSIDE : level === 255 ? STRANGE : ramp), level ? 255 : 60], 4 * i);
  });
  canvas.getContext("2d")?.putImageData(pixels, 0, 0);
  // Cells that can be seen, also of an output of one row.
  const scale = Math.min(24, Math.max(1, Math.floor(720 / width)));
  canvas.style.width = `${width * scale}px`;
  canvas.style.height = `${Math.max(40, Math.min(480, height * scale))}px`;
  const { shape } = output;
  const [columns = 1, rows = 1] = shape.toReversed();
  const others = shape.slice(0, -2);
  const label =
    `output ${place} ${output.name}: ${rows} rows by ${columns} columns` +
    (others.some((extent) => extent > 1) ? `, the worst over the leading axes ${times(others)}` : "") +
    (step[0] * step[1] > 1 ? `; a cell stands for ${times(step)} elements` : "");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  const key = (colour: number[], text: string) => {
    const swatch = el("i.swatch");
    swatch.style.background = `rgb(${colour} / ${colour === INSIDE ? 0.25 : 1})`.replace(/,/g, " ");
    return el("span.key", swatch, text);
  };
  const keys = [key(INSIDE, "right"), key(LEAST, "just outside"), key(MOST, "a million times the tolerance")];
  return el("figure", canvas, el("figcaption", label, el("span.keys", keys, key(STRANGE, "NaN or Inf"))));
}

function diagnosticText(diagnostic: Diagnostic): HTMLElement {
  const { severity, column, message, source, line } = diagnostic;
  // Firefox draws the place itself.
  const place = line > 0 && source && !message.includes("\n") ? `\n${source}\n${caret(source, column)}` : "";
  return el(
    `pre.diagnostic.is-${severity}`,
    el("b", `${placeOf(diagnostic)}: ${severity}: `),
    message,
    place,
  );
}

function tolerances(outputs: readonly Output[]): Child {
  return outputs.map(({ name, tolerance: { absolute, relative, reasons, bound, ties } }) => [
    el(
      "p",
      `${name}: `,
      el(
        "code",
        bound
          ? "|got - expected| <= bound[element]"
          : `|got - expected| <= ${number(absolute)} + ${number(relative)} * |expected|`,
      ),
      bound ? `, at most ${number(absolute)}` : null,
      ties ? ", or another choice among equals" : null,
    ),
    el(
      "ul",
      reasons.map((reason) => el("li", reason)),
    ),
  ]);
}

function launches(repro: Repro, variant: Variant): Child {
  const tensors = [...repro.inputs, ...repro.outputs];
  const value = (found: Expression | undefined) =>
    typeof found === "number" ? found : evaluate(found, repro.test.sizes);
  const { features, limits: wanted } = variant.requires;
  const needs = [...features, ...Object.entries(wanted).map(([name, value]) => `${name} ${value}`)].join(
    ", ",
  );
  const all = repro.kernel.variants.map(({ name }) => name);
  return [
    all.length > 1 ? el("p", `Variant ${variant.name} of ${all.join(", ")}.`) : null,
    variant.launches.map((launch) => {
      const entry = variant.entry_points.find(({ name }) => name === launch.entry_point);
      if (!entry) return null;
      const grid = launch.grid.map(value);
      const size = times(entry.workgroup_size);
      const bindings: Child[][] = storageBindings(entry).map(({ binding }, i) => {
        const operand = launch.operands[i] ?? { argument: -1 };
        if ("temporary" in operand) {
          const bytes = value(variant.temporaries[operand.temporary]);
          return [String(binding), `temporary ${operand.temporary}`, `${bytes} bytes`];
        }
        if ("texture" in operand) {
          const { dimension, format, size } = variant.textures?.[operand.texture] ?? {};
          return [
            String(binding),
            `texture ${operand.texture}`,
            `${dimension} ${format} [${size?.map(value)}]`,
          ];
        }
        const tensor = tensors[operand.argument];
        const role = operand.argument < repro.inputs.length ? "input" : "output";
        const before = tensors[repro.kernel.arguments[operand.argument]?.overwrites ?? -1];
        const begun = before ? `, begun as input ${before.name}` : "";
        return [String(binding), `${role} ${tensor?.name}${begun}`, tensor ? describeType(tensor) : ""];
      });
      const uniforms = launch.uniforms.map((uniform) => `${uniform.name} ${value(uniform.value)}`).join(", ");
      for (const { binding, access } of entry.bindings)
        if (access === "uniform") bindings.push([String(binding), "uniform", uniforms]);
      return [
        el("p", el("code", launch.entry_point), `: ${times(grid)} workgroups of ${size}`),
        table(["binding", "holds", "type"], bindings),
      ];
    }),
    needs ? details(false, "What it requires of a device", el("p", needs)) : null,
  ];
}

function tensors(repro: Repro): HTMLElement {
  const { inputs, outputs } = repro;
  const roles = [...inputs.map(() => "input"), ...outputs.map(() => "expected output")];
  return table(
    ["tensor", "", "type", "bytes", "SHA-256"],
    [...inputs, ...outputs, ...toleranceTensors(repro)].map((tensor, i) => [
      tensor.name,
      roles[i] ?? "tolerance",
      describeType(tensor),
      grouped(bytesOf(tensor)),
      digestText(tensor.digest),
    ]),
  );
}

/** The WGSL with line numbers and what the compiler says of it. */
function kernelText(
  { files, kernel }: Repro,
  variant: Variant | undefined,
  diagnostics: readonly Diagnostic[],
  link: Actions["link"],
): HTMLElement {
  const names = variant?.entry_points.map(({ file }) => file) ?? [];
  if (!files.length) return section("Kernel", el("p", kernel.unsupported ?? "There is no WGSL."));
  const texts = files.map((file) => {
    const lines = file.text.replace(/\n$/, "").split("\n");
    const code = el(
      "ol",
      lines.map((text, i) => {
        const found = diagnostics.filter((one) => one.file === file.name && one.line === i + 1);
        const worst = found.some(({ severity }) => severity === "error") ? "error" : "warning";
        return el(found.length ? `li.marked.is-${worst}` : "li", el("code", text || " "));
      }),
    );
    code.style.setProperty("--digits", String(String(lines.length).length));
    const raw = link ? el("a", "as text") : null;
    if (link) raw?.setAttribute("href", link(file));
    const title = `${file.name}${file.edited ? ", edited" : ""}, ${lines.length} lines`;
    return details(
      names.includes(file.name) && lines.length < 400,
      title,
      raw && el("p", raw),
      scrolling("div.wgsl", `WGSL of ${file.name}`, code),
    );
  });
  return section("Kernel", texts);
}

function provenance({ model, suite, test, reference, created, tapml }: Repro): HTMLElement {
  return table(
    [],
    [
      ["Model", `${model.title} (${model.source})`],
      ["SHA-256 of the model", digestText(model.sha256)],
      ["Suite", `${suite.name}${suite.synthetic ? ", made-up inputs" : ""} (${suite.id})`],
      ["Test", `${test.id}: node ${test.node}, step ${test.step}`],
      ["Expected outputs by", `${reference.device} (${reference.platform})`],
      ["Written", `${created} by tapml ${tapml}`],
    ],
  );
}

/** For an issue or a mail. */
export function plainResult(repro: Repro, outcome: Outcome | null): string {
  if (!outcome) return "";
  const here = numbersOf(outcome);
  const line = (where: string, device: Device | null, numbers: Numbers) => {
    const { verdict, message, total, max_abs_error, max_ulp, first, worst } = numbers;
    const [one, other] = [first, worst].map((found) => el("p", elementText(found, repro)).textContent);
    return [
      `${where}: ${verdict} on ${[device?.name, gpuOf(device)].filter(Boolean).join(", ")}`,
      message && `  ${message}`,
      total && headline(repro, numbers) && `  worst element: ${headline(repro, numbers)}`,
      total && `  largest error ${number(max_abs_error)}, ${number(max_ulp)} ULP`,
      first && `  first: ${one}`,
      worst && verdict === "fail" && `  worst: ${other}`,
    ];
  };
  const { report, test, model } = repro;
  return [
    `${test.kernel} of ${model.title}, test ${test.id} (tapml ${repro.tapml}, suite ${repro.suite.id})`,
    ...doubtsOf(repro),
    statement(report, here).text,
    ...line("here", outcome.device, here),
    ...(report ? line("reported", report.device, report.result) : []),
    `user agent: ${outcome.device?.user_agent ?? navigator.userAgent}`,
  ]
    .filter(Boolean)
    .join("\n");
}

export async function copyText(text: string, pressed: HTMLButtonElement): Promise<void> {
  const label = pressed.textContent;
  try {
    await navigator.clipboard.writeText(text);
    pressed.textContent = "Copied";
    setTimeout(() => {
      pressed.textContent = label;
    }, 2000);
  } catch {
    // Not every browser lets a page write there: then the reader copies.
    const area = el("textarea") as HTMLTextAreaElement;
    area.value = text;
    area.rows = 8;
    area.readOnly = true;
    pressed.parentElement?.after(area);
    area.select();
  }
}
