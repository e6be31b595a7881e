import { describe, expect, it } from "vitest";
import type { LocateDocument, OffloadStep } from "../api/generated/results";
import type { Job, JobEvent, Results } from "../api/types";
import { device, result, suite } from "./fixture";
import { buildMatrix } from "./matrix";
import { type Action, EMPTY, type ResultsState, reduce } from "./results";
import { due, resultsOf } from "./texts";

const saved: Extract<Action, { type: "saved" }> = {
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
        kernel_digests: { norm: "d1", take: "d1" },
        earlier: { d0: [result("n1.s0", "elsewhere", "error")] },
        not_run: {},
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
    kernels: { norm: { digest: "d1", edited: false }, take: { digest: "d1", edited: false } },
    problems: [],
  },
};

const savedDocument = saved.results.validations[0] as Results["validations"][number];

const run = (actions: Action[], from: ResultsState = EMPTY) => actions.reduce(reduce, from);
const events = (...list: JobEvent[]): Action => ({ type: "events", events: list });
const started: JobEvent = { type: "started", kind: "validation", total: 3 };
const joins = (id: string): JobEvent => ({ type: "device", device: device(id, "chromium") });
const begin = (kernels: string[] | null): Action[] => [
  { type: "asked", job: "j", asked: { kernels, trial: false } },
  { type: "job", job: "j" },
];

const runs = (digests: Record<string, string>): JobEvent => ({ type: "kernels", digests });
const edited = (digests: Record<string, string>): Action => ({
  type: "kernels",
  kernels: Object.fromEntries(
    Object.entries(digests).map(([kernel, digest]) => [kernel, { digest, edited: true }]),
  ),
});
const passes: JobEvent[] = ["n1.s0", "n3.s0"].map((test) => ({
  type: "verdict",
  device: "old",
  result: result(test, "old"),
}));
const cellOf = (state: ResultsState, kernel: string) =>
  buildMatrix(suite, state, ["old"]).rows.find((row) => row.kernel === kernel)?.cells.old;

describe("saved results", () => {
  it("show at once", () => {
    const state = run([saved]);
    expect(state.devices.map((column) => column.id)).toEqual(["old"]);
    expect(state.verdicts.old?.["n1.s0"]?.verdict).toBe("fail");
  });

  it("of an earlier text of a kernel are such until it has run again", () => {
    const state = run([saved, edited({ norm: "d2", take: "d2" })]);
    expect(cellOf(state, "norm")).toMatchObject({ state: "stale", former: { fail: 1 } });
    expect(cellOf(state, "take")).toMatchObject({ state: "stale", former: { pass: 1 } });
    const again = run(
      [...begin(["norm"]), events(started, joins("old"), runs({ norm: "d2" }), ...passes)],
      state,
    );
    expect(again.outdated.old).toEqual(["take"]);
    expect(cellOf(again, "norm")?.counts).toMatchObject({ pass: 2, stale: 0 });
  });

  it("come back when the edit is undone, also after a run of the edited text", () => {
    const state = run([saved, edited({ norm: "d2" }), edited({ norm: "d1" })]);
    expect(cellOf(state, "norm")?.state).toBe("fail");
    const ran = run(
      [
        edited({ norm: "d2" }),
        ...begin(["norm"]),
        events(started, joins("old"), runs({ norm: "d2" }), ...passes),
      ],
      state,
    );
    expect(cellOf(ran, "norm")).toMatchObject({ state: "pass" });
    expect(cellOf(run([edited({ norm: "d1" })], ran), "norm")).toMatchObject({ state: "fail" });
    expect(cellOf(run([edited({ norm: "d0" })], ran), "norm")).toMatchObject({ state: "error" });
  });

  it("of a text that was edited while it ran are grey", () => {
    const state = run([
      saved,
      ...begin(["norm"]),
      events(started, joins("old"), runs({ norm: "d1" })),
      edited({ norm: "d2" }),
      events(...passes),
    ]);
    expect(cellOf(state, "norm")).toMatchObject({ state: "stale", former: { pass: 2 } });
  });

  it("of a text on trial hide nothing, and are those of the file once it is saved", () => {
    const asked: Action = { type: "asked", job: "j", asked: { kernels: ["norm"], trial: true } };
    const state = run([
      saved,
      asked,
      { type: "job", job: "j" },
      events(started, joins("old"), runs({ norm: "d3" }), ...passes),
    ]);
    expect(cellOf(state, "norm")).toMatchObject({ state: "fail", former: { pass: 0 } });
    expect(Object.keys(resultsOf(state, "old", "norm", "d3"))).toEqual(["n1.s0", "n3.s0"]);
    expect(cellOf(run([edited({ norm: "d3" })], state), "norm")).toMatchObject({ state: "pass" });
    const fresh = run(
      [asked, { type: "job", job: "j" }, events(started, joins("new"), runs({ norm: "d3" }))],
      run([edited({ norm: "d1" })]),
    );
    const came = run([events({ type: "verdict", device: "new", result: result("n1.s0", "new") })], fresh);
    expect(came.verdicts.new?.["n1.s0"]).toBeUndefined();
    expect(run([edited({ norm: "d3" })], came).verdicts.new?.["n1.s0"]?.verdict).toBe("pass");
  });

  it("are due for a run when the text is another one, but not where it has verdicts", () => {
    const seen = {};
    const state = run([saved]);
    expect(due(state, seen)).toEqual([]);
    const other = run([edited({ norm: "d2" })], state);
    expect(due(other, seen)).toEqual(["norm"]);
    expect(due(run([edited({ norm: "d1" })], other), seen)).toEqual([]);
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
    expect(state.job?.compiled).toEqual({ a: { done: 1, total: 2 } });
  });

  it("says about how long it will take, as the last event that knew has it", () => {
    const verdict = { type: "verdict", device: "a", result: result("n1.s0", "a") } as const;
    const state = run([
      ...begin(null),
      events(started, joins("a"), { ...verdict, left: 4.5 }, { ...verdict, left: null }),
    ]);
    expect(state.job?.left).toEqual({ a: 4.5 });
  });

  it("that is cancelled keeps what there was of the tests that it did not come to", () => {
    const again: JobEvent = { type: "verdict", device: "old", result: result("n0.s0", "old", "error") };
    const cancelled: JobEvent = { type: "ended", state: "cancelled", error: null };
    const before = run([saved]);
    const cleared = run(
      [...begin(null), events(started, joins("old"), runs({ norm: "d1", take: "d1" }), again)],
      before,
    );
    expect(Object.keys(cleared.verdicts.old ?? {})).toEqual(["n0.s0"]);
    const document = { ...savedDocument, not_run: { old: ["n1.s0", "n3.s0"] } };
    const job: Job = {
      job: "j",
      kind: "validation",
      suite: "s",
      state: "cancelled",
      events: [],
      next: 5,
      document,
      error: null,
    };
    const state = run([events(cancelled), { type: "ended", job }], cleared);
    expect(state.verdicts.old?.["n0.s0"]?.verdict).toBe("error");
    expect(state.verdicts.old?.["n1.s0"]?.verdict).toBe("fail");
    expect(state.outdated).toEqual({});
    expect(state.partial).toEqual({ old: 2 });
    // The next one is whole.
    expect(run([...begin(null), events(started, joins("old"))], state).partial).toEqual({});
  });

  it("that is cancelled and has edited a kernel meanwhile shows the former verdict as of the former text", () => {
    const now = run([saved, edited({ norm: "d9" })]);
    const job: Job = {
      job: "j",
      kind: "validation",
      suite: "s",
      state: "cancelled",
      events: [],
      next: 3,
      document: null,
      error: null,
    };
    const state = run(
      [
        ...begin(null),
        events(started, joins("old"), runs({ norm: "d9", take: "d1" })),
        { type: "ended", job },
      ],
      now,
    );
    expect(state.verdicts.old?.["n1.s0"]?.verdict).toBe("fail");
    expect(state.outdated).toEqual({ old: ["norm"] });
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
      events({ type: "kernels", digests: { take: "t1", norm: "n1" } }),
      events({ type: "step", device: "a", step: step("take"), number: 0, total: 2 }),
    ]);
    expect(first.offloads.a?.steps).toHaveLength(1);
    expect(first.offloads.a?.digests).toEqual({ take: "t1", norm: "n1" });
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
    kernel_digests: {},
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
      kernels: {},
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
