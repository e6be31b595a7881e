import { expect, it } from "vitest";
import {
  ago,
  counted,
  elapsed,
  type Failure,
  failureGroups,
  isOver,
  labelRows,
  limitsOf,
  type Release,
  share,
  stateOf,
  stepLine,
  type Traffic,
  taskVersions,
  took,
} from "./model";

const failure = (kernel: string, device: string, more: Partial<Failure> = {}): Failure => ({
  ...{ kernel, device, variant: "256", node: "n001", browser: "Chromium 156", gpu: "nobody", message: "" },
  ...{ link: "", at: 0, task: "shop/a", version: "1.0", ...more },
});
const release = (version: string, more: Partial<Release> = {}): Release => ({
  ...{ number: 1, task: "shop/a", version, manifest: "", status: "running", reason: "", waits: "", step: 0 },
  ...{ steps: ["beta", "full"], since: 0, devices: 0, failed: 0, slow: 0, events: [], coverage: [] },
  ...{ rates: [], thresholds: { failure_rate: 0.01, slow_ms: null, slow_rate: 0.05 } },
  ...{ samples: { judged: 0, calls: 0, failed: 0, waiting: 0 }, ...more },
});

it("groups failures by kernel, browser and GPU, and counts a device once", () => {
  const found = failureGroups([
    failure("add", "one"),
    failure("softmax", "one"),
    failure("softmax", "one"),
    failure("softmax", "two"),
    failure("softmax", "two", { browser: "Firefox 140" }),
  ]);
  expect(
    found.map(({ kernel, browser, devices, failures }) => [kernel, browser, devices, failures.length]),
  ).toEqual([
    ["softmax", "Chromium 156", 2, 3],
    ["add", "Chromium 156", 1, 1],
    ["softmax", "Firefox 140", 1, 1],
  ]);
});

it("folds what is rolled back, and what everybody has a newer release of, but never the newest", () => {
  const over = { status: "rolled-back" as const };
  const releases = [
    release("1.4", { number: 6, ...over }),
    release("1.3", { number: 5, ...over, step: 1 }),
    release("1.2", { number: 4, step: 1 }),
    release("1.1", { number: 3, step: 1 }),
    release("2.0", { number: 2, task: "shop/b", step: 1 }),
    release("1.0", { number: 1, ...over }),
  ];
  expect(releases.map((one) => isOver(one, releases))).toEqual([false, true, false, true, false, true]);
  expect(isOver(release("1.0", { number: 1, step: 1 }), [release("1.1", { number: 2 })])).toBe(false);
});

it("lists versions by task, each with its newest release and who holds it", () => {
  const told = { at: 0, app: "1", browser: "", gpu: "" };
  const devices = [
    { ...told, device: "one", holds: { "shop/a": "1.0" } },
    { ...told, device: "two", holds: { "shop/b": "1.0" } },
  ];
  const again = release("1.0", { number: 3 });
  const found = taskVersions([again, release("1.1", { number: 2 }), release("1.0")], devices);
  expect(found).toEqual([
    {
      task: "shop/a",
      versions: [
        { release: again, holding: 1 },
        { release: release("1.1", { number: 2 }), holding: 0 },
      ],
    },
  ]);
  expect(stateOf(release("1", { status: "rolled-back" }))).toBe("rolled back in beta");
});

it("draws a line that keeps its value until the next, and to the end", () => {
  expect(
    stepLine(
      [
        [1000, 0],
        [2000, 5],
      ],
      3000,
      10,
      200,
      100,
    ),
  ).toBe("M0.0,100.0H100.0V50.0H200.0");
  expect(stepLine([], 3000, 10, 200, 100)).toBe("");
});

it("says how long ago something was", () => {
  expect([0, 119, 600, 8000, 400_000].map((s) => ago(0, 1000 * s))).toEqual([
    "0 s ago",
    "119 s ago",
    "10 min ago",
    "2 h ago",
    "5 days ago",
  ]);
});

it("says whose numbers they are", () => {
  const traffic: Traffic = {
    ...{ redis: "none", processes: 3, answers: 0, reports: 0, connections: 0, bytes: 0 },
    ...{ devices: null, streams: 0, records: 0, emitted: [] },
  };
  expect(counted({ ...traffic, redis: "none" })).toBe("Of this process");
  expect(counted({ ...traffic, redis: "connected" })).toBe("Of 3 processes together");
  expect(counted({ ...traffic, redis: "away" })).toBe("Redis is away: of this process alone");
});

it("says shares, times, and what rolls a release back", () => {
  expect([share(0, 7), share(3, 200), share(7, 7), share(0, 0)]).toEqual(["0", "3 (1.5%)", "7 (100%)", "0"]);
  expect([took(44), took(999), took(1200), took(65_000)]).toEqual(["44 ms", "999 ms", "1.2 s", "65 s"]);
  expect(limitsOf(release("1"))).toBe(
    "It is rolled back when there is evidence that runs fail on more than 1% of the devices.",
  );
  const thresholds = { failure_rate: 0.02, slow_ms: 250, slow_rate: 0.05 };
  expect(limitsOf(release("1", { thresholds }))).toBe(
    "It is rolled back when there is evidence that runs fail on more than 2% of the devices, or take over 250 ms on more than 5%.",
  );
});

it("puts labels in rows where they cover no other, and before their line where they would leave the picture", () => {
  const spans = [0, 10, 20, 25, 70, 95].map((at) => [at, at + 30] as const);
  expect(labelRows(spans, 2, 100)).toEqual([0, 1, null, null, 0, 1]);
  expect(elapsed(95_400)).toBe("95 s");
  expect(elapsed(36_000_000)).toBe("10 h");
});
