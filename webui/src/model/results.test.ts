import { describe, expect, it } from "vitest";
import type { LocateDocument, OffloadStep } from "../api/generated/results";
import type { Job, JobEvent } from "../api/types";
import { device, result, suite } from "./fixture";
import { buildMatrix } from "./matrix";
import { type Action, EMPTY, type ResultsState, reduce } from "./results";

const saved: Action = {
  type: "saved",
  results: {
    validations: [
      {
        format: "tapml.validation/1",
        suite: "s",
        suite_name: "s",
        synthetic: false,
        doubts: [],
        created: "2026-11-20",
        interrupted: false,
        edited_kernels: [],
        run: null,
        kernel_digests: {},
        devices: [device("old", "chromium")],
        tests: [result("n0.s0", "old"), result("n1.s0", "old", "fail")],
        summary: {
          total: 2,
          pass: 1,
          fail: 1,
          error: 0,
          unsupported: 0,
          unbounded: 0,
          failing_kernels: [],
          seconds: 1,
          devices: {},
        },
      },
    ],
    offloads: [],
    locates: [],
    outdated: { old: ["norm", "take"] },
    problems: [],
  },
};

const run = (actions: Action[], from: ResultsState = EMPTY) => actions.reduce(reduce, from);
const events = (...list: JobEvent[]): Action => ({ type: "events", events: list });
const started: JobEvent = { type: "started", kind: "validation", total: 3 };
const joins = (id: string): JobEvent => ({ type: "device", device: device(id, "chromium") });
const begin = (kernels: string[] | null): Action[] => [
  { type: "asked", job: "j", kernels },
  { type: "job", job: "j" },
];

describe("saved results", () => {
  it("show at once", () => {
    const state = run([saved]);
    expect(state.devices.map((column) => column.id)).toEqual(["old"]);
    expect(state.verdicts.old?.["n1.s0"]?.verdict).toBe("fail");
  });

  it("of an earlier text of a kernel are such until it has run again", () => {
    const state = run([saved]);
    const [row] = buildMatrix(suite, state, ["old"]).rows.filter((found) => found.kernel === "norm");
    expect(row?.cells.old?.outdated).toBe(true);
    const verdict: JobEvent = { type: "verdict", device: "old", result: result("n1.s0", "old") };
    const again = run([...begin(null), events(started, joins("old"), verdict)], state);
    expect(again.outdated.old).toEqual(["take"]);
  });

  it("do not displace what a running job has said", () => {
    const state = run([...begin(null), events(started, joins("old")), saved]);
    expect(state.verdicts.old).toEqual({});
  });
});

describe("a validation", () => {
  it("forgets the device's earlier results, and counts", () => {
    const state = run([
      saved,
      ...begin(null),
      events(started, joins("old"), {
        type: "verdict",
        device: "old",
        result: result("n0.s0", "old", "error"),
      }),
    ]);
    expect(Object.keys(state.verdicts.old ?? {})).toEqual(["n0.s0"]);
    expect(state.created.old).toBeUndefined();
    expect(state.job).toMatchObject({ done: 1, total: 3, state: "running", counts: { error: 1 } });
  });

  it("of one kernel keeps the results of the others", () => {
    const state = run([saved, ...begin(["norm"]), events(started, joins("old"))]);
    expect(Object.keys(state.verdicts.old ?? {})).toEqual(["n0.s0"]);
  });

  it("started elsewhere, of unknown range, keeps results until others come", () => {
    const state = run([saved, { type: "job", job: "x" }, events(started, joins("old"))]);
    expect(Object.keys(state.verdicts.old ?? {})).toHaveLength(2);
  });

  it("puts the same browser with a new id into its old column", () => {
    const state = run([saved, ...begin(["norm"]), events(started, joins("new"))]);
    expect(state.devices.map((column) => column.id)).toEqual(["new"]);
    expect(state.verdicts.new?.["n0.s0"]?.verdict).toBe("pass");
    expect(state.verdicts.old).toBeUndefined();
  });

  it("has two columns for two tabs of one browser in one job", () => {
    const state = run([...begin(null), events(started, joins("a"), joins("b"))]);
    expect(state.devices.map((column) => column.id)).toEqual(["a", "b"]);
  });

  it("says which kernel compiles until a verdict comes", () => {
    const compile: JobEvent = { type: "compile", device: "a", kernel: "norm", done: 1, total: 2 };
    const compiling = run([...begin(null), events(started, joins("a"), compile)]);
    expect(compiling.job?.compiling.a?.kernel).toBe("norm");
    const state = run([events({ type: "verdict", device: "a", result: result("n1.s0", "a") })], compiling);
    expect(state.job?.compiling).toEqual({});
  });
});

describe("an offload", () => {
  const step = (kernel: string): OffloadStep => ({
    kernel,
    nodes: [],
    operator_verdict: "pass",
    model_metric: null,
    kept: true,
    offloaded_nodes: 1,
    segments: 1,
    seconds: 0,
    message: "",
  });

  it("starts anew and grows by steps", () => {
    const first = run([
      ...begin(null),
      events({ type: "started", kind: "offload", total: 2 }, joins("a")),
      events({ type: "step", device: "a", step: step("take"), number: 0, total: 2 }),
    ]);
    expect(first.offloads.a?.steps).toHaveLength(1);
    const again = run(
      [{ type: "job", job: "k" }, events({ type: "started", kind: "offload", total: 2 }, joins("a"))],
      first,
    );
    expect(again.offloads.a).toMatchObject({ steps: [], total: 2, final: null });
  });
});

describe("a search for faulty kernels", () => {
  const found: LocateDocument = {
    format: "tapml.locate/1",
    suite: "s",
    suite_name: "s",
    synthetic: false,
    doubts: [],
    created: "2026-11-21",
    interrupted: false,
    edited_kernels: [],
    devices: [device("old", "chromium")],
    runs: 3,
    summary: {
      faulty_kernels: [],
      unbounded_kernels: [],
      racing_kernels: [],
      verdict: "clean",
      tests: 3,
      seconds: 1,
      parts: {},
      suspicious_kernels: [],
    },
    kernels: [],
    suspicious: [],
    missing_barriers: [],
    positions: null,
    model: null,
  };
  const search: JobEvent = { type: "started", kind: "locate", total: 3 };
  const fails: JobEvent = { type: "verdict", device: "old", result: result("n1.s0", "old", "fail") };

  it("loads with the other results", () => {
    const results = {
      validations: [],
      offloads: [],
      locates: [found],
      outdated: {},
      problems: ["x.json is left out"],
    };
    const state = run([{ type: "saved", results }]);
    expect(state.locates.old?.summary.verdict).toBe("clean");
    expect(state.problems).toEqual(["x.json is left out"]);
  });

  it("names what fails as it goes, each kernel once, and keeps the operators' table", () => {
    const state = run([saved, ...begin(null), events(search, joins("old"), fails, fails)]);
    expect(state.job).toMatchObject({ kind: "locate", failing: ["norm"], done: 2 });
    expect(Object.keys(state.verdicts.old ?? {})).toHaveLength(2);
  });

  it("says what it does after the tests, and then gives what it found", () => {
    const steps = run([
      ...begin(null),
      events(search, joins("old"), {
        type: "examine",
        device: "old",
        kernel: "norm",
        test: "n1.s0",
        number: 1,
        total: 2,
      }),
    ]);
    expect(steps.job?.phase).toEqual({ text: "runs tests again: norm", done: 1, total: 2 });
    const job: Job = {
      job: "j",
      kind: "locate",
      suite: "s",
      state: "done",
      events: [],
      next: 0,
      document: found,
      error: null,
    };
    const ended = run([{ type: "ended", job }], steps);
    expect(ended.job?.phase).toBeNull();
    expect(ended.locates.old).toBe(found);
    const again = run([{ type: "job", job: "k" }, events(search, joins("old"))], ended);
    expect(again.locates.old).toBeUndefined();
  });
});

describe("the end", () => {
  it("keeps the reason", () => {
    const state = run([
      ...begin(null),
      events(started, { type: "ended", state: "failed", error: "The device is gone." }),
    ]);
    expect(state.job).toMatchObject({ state: "failed", error: "The device is gone." });
  });

  it("of a job the server forgot is a failure", () => {
    expect(run([...begin(null), { type: "gone" }]).job?.state).toBe("failed");
  });

  it("ignores an event of a newer server", () => {
    const unknown = { type: "sparkle" } as unknown as JobEvent;
    expect(run([...begin(null), events(unknown)]).job?.state).toBe("running");
  });
});
