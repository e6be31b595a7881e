import { expect, it } from "vitest";
import type { HistoryPoint, Moment, Trend } from "../api/generated/results";
import { shareText } from "./headline";
import {
  curve,
  errorScale,
  facts,
  isOlder,
  lastOfNow,
  pointText,
  remarks,
  timeScale,
  version,
} from "./history";

const at = (created: string, device = "Chromium 156"): Moment => ({
  run: created,
  at: Date.parse(created),
  created,
  device,
});

const point = (changes: Partial<HistoryPoint> = {}): HistoryPoint => ({
  ...at("2026-03-01T12:00:00"),
  verdict: "pass",
  kernel_digest: "",
  flaky: false,
  attempts: [],
  bound_share: 0.12,
  max_abs_error: 1.5e-7,
  max_ulp: 2,
  mismatched: 0,
  total: 96,
  variant: "256",
  message: "",
  seconds: 0.002,
  gpu_seconds: null,
  kernel_changed: false,
  device_changed: false,
  ...changes,
});

const trend = (changes: Partial<Trend> = {}): Trend => ({
  test: "n000.s0",
  kernel: "softmax",
  device: "Chromium",
  gpu: "SwiftShader",
  state: "passing",
  runs: 8,
  last: { ...at("2026-03-01T12:00:00"), verdict: "pass", kernel_digest: "" },
  since: { ...at("2026-02-01T12:00:00"), kernel_changed: false, device_changed: false },
  new_failure: false,
  first_failing: null,
  first_passing: at("2026-02-01T12:00:00"),
  flaky_runs: 0,
  flaky_rate: 0,
  seconds: { median: 0.002, last: 0.003 },
  gpu_seconds: { median: null, last: null },
  versions: [],
  ...changes,
});

it("names a run's version, or the device where it has none", () => {
  expect(version("Chromium 156")).toBe("156");
  expect(version("Firefox 140.3esr")).toBe("140.3esr");
  expect(version("WebKit (GTK) 2.50")).toBe("2.50");
  expect(version("my laptop")).toBe("my laptop");
});

it("tells a run in a sentence", () => {
  expect(pointText(point())).toBe(
    "2026-03-01 12:00, Chromium 156: pass, 12 % of its bound, max abs error 1.5e-7, 2 ms (mean of its batch)",
  );
  expect(pointText(point({ gpu_seconds: 31e-6 }))).toContain("1.5e-7, GPU time 31 µs");
  const bad = point({
    verdict: "fail",
    flaky: true,
    attempts: ["fail", "fail"],
    kernel_changed: true,
    mismatched: 3,
    bound_share: "Infinity",
    max_abs_error: null,
    max_ulp: null,
    seconds: null,
  });
  expect(pointText(bad)).toBe(
    "2026-03-01 12:00, Chromium 156: fail, attempts fail, fail, flaky, the kernel changed, 3 of 96 out of tolerance, more than 1000 × its bound",
  );
});

it("tells since when, and what was new then", () => {
  const since = {
    ...at("2026-02-03T08:30:00", "Chromium 157"),
    kernel_changed: true,
    device_changed: true,
  };
  const found = facts(
    trend({ state: "failing", since, first_failing: at("2026-01-02T03:04:00"), flaky_runs: 2 }),
  );
  expect(found).toEqual([
    {
      name: "failing since",
      value: "2026-02-03 08:30 in Chromium 157",
      note: "the kernel changed there, another version",
    },
    { name: "first seen failing", value: "2026-01-02 03:04 in Chromium 156", note: "" },
    { name: "flaky", value: "25%", note: "2 of 8 runs" },
    { name: "median time", value: "2 ms", note: "last 3 ms, each the mean of its batch" },
  ]);
  // The badge tells the last run of what is on disk: an edit that was undone.
  const undone = facts(
    trend({
      state: "failing",
      since,
      last: { ...at("2026-03-01T12:00:00"), verdict: "fail", kernel_digest: "a" },
    }),
    { digest: "b", edited: false },
  );
  expect(undone[0]?.name).toBe("for older WGSL: failing since");
  expect(facts(trend({ gpu_seconds: { median: 3e-5, last: 4e-5 } })).at(-1)).toEqual({
    name: "median GPU time",
    value: "30 µs",
    note: "last 40 µs",
  });
  expect(facts(trend({ seconds: { median: null, last: null } })).map(({ value }) => value)).toEqual([
    "2026-02-01 12:00 in Chromium 156",
    "never",
    "no",
  ]);
});

it("remarks on kernels only where something is new or flaky", () => {
  const since = { ...at("2026-02-03T08:30:00"), kernel_changed: false, device_changed: false };
  const found = remarks(
    [
      trend(),
      trend({ kernel: "matmul", flaky_runs: 1 }),
      trend({ kernel: "matmul", flaky_runs: 2 }),
      trend({ kernel: "gelu", state: "failing", new_failure: true, since }),
      trend({ kernel: "old", state: "failing" }),
    ],
    {},
  );
  expect([...found]).toEqual([
    ["matmul", "flaky in Chromium"],
    ["gelu", "new failure: passed before 2026-02-03 08:30 in Chromium 156"],
  ]);
});

it("remarks on no failure of a text that is not there any more", () => {
  const last = { ...at("2026-03-01T12:00:00"), verdict: "fail" as const, kernel_digest: "edited" };
  const found = trend({ kernel: "gelu", state: "failing", new_failure: true, last });
  expect([...remarks([found], { gelu: { digest: "edited", edited: true } }).keys()]).toEqual(["gelu"]);
  // The edit was undone, or another one was made that nobody has run.
  expect([...remarks([found], { gelu: { digest: "before", edited: false } })]).toEqual([]);
  expect([...remarks([found], { gelu: { digest: null, edited: true } })]).toEqual([]);
});

it("takes the last run of the text that is there, or one that is older and says so", () => {
  const points = [point({ kernel_digest: "a" }), point({ kernel_digest: "b", verdict: "fail" })];
  const now = (digest: string) => ({ digest, edited: false });
  expect(lastOfNow(points, now("a"))).toBe(0);
  expect(lastOfNow(points, now("b"))).toBe(1);
  expect(lastOfNow(points, now("c"))).toBe(1);
  expect(points.map((one) => isOlder(one, now("a")))).toEqual([false, true]);
  expect(isOlder(point(), now("a"))).toBe(false);
  expect(pointText(point(), true)).toContain("pass, for older WGSL, ");
});

it("draws a line with gaps, and a dot where a run stands alone", () => {
  const found = curve([1, 2, null, 4], { width: 40, height: 10 }, timeScale([1, 2, null, 4]));
  expect(found.path).toBe("M5 8L15 6M35 2");
  expect(found.dots).toEqual([{ x: 35, y: 2 }]);
  expect(found.ticks.map((tick) => [tick.name, tick.y])).toEqual([
    ["0 s", 10],
    ["2.5 s", 5],
    ["5 s", 0],
  ]);
});

it("scales times to a round number above all of them", () => {
  expect(timeScale([0.0021, null]).ticks.map((tick) => tick.name)).toEqual(["0 s", "2.5 ms", "5 ms"]);
  expect(timeScale([0.01]).position(0.01)).toBe(1);
  expect(timeScale([0, 0]).position(0)).toBe(0);
  expect(timeScale([7]).position(7)).toBeCloseTo(0.7);
});

it("shows what is beyond every bound at the top", () => {
  const scale = errorScale([2, 0.5, Number.POSITIVE_INFINITY], shareText);
  expect(scale.position(Number.POSITIVE_INFINITY)).toBe(1);
  expect(scale.position(2)).toBeLessThan(1);
  expect(scale.ticks.map(({ name }) => name)).toEqual(["10 %", "100 %", "10 ×"]);
});

it("shows exact results below every error", () => {
  const scale = errorScale([0, 3, 200, null]);
  expect(scale.position(0)).toBe(0);
  expect(scale.position(3)).toBeGreaterThan(0);
  expect(scale.ticks[0]?.name).toBe("0");
  expect(scale.ticks.map((tick) => tick.name)).toContain("100");
});
