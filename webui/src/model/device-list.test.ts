import { expect, it } from "vitest";
import { deviceLabel, deviceRows, traits } from "./device-list";
import { device } from "./fixture";

it("numbers the tabs of one browser", () => {
  expect(deviceLabel({ id: "chromium-156", name: "Chromium 156" })).toBe("Chromium 156");
  expect(deviceLabel({ id: "chromium-156-2", name: "Chromium 156" })).toBe("Chromium 156 (2)");
  expect(deviceLabel({ id: "safari-26-1-on-iphone-3", name: "Safari 26.1 on iPhone" })).toBe(
    "Safari 26.1 on iPhone (3)",
  );
  // A version that is longer than the name is no number of a tab.
  expect(deviceLabel({ id: "deno-2-9-6", name: "Deno" })).toBe("Deno");
});

it("lists what is connected, what can be started and what is gone, each once", () => {
  const started = { ...device("chromium-156", "Chromium 156"), started: "chromium", busy: true };
  const tab = device("chromium-156-2", "Chromium 156");
  const broken = { ...device("webkitgtk", "WebKitGTK"), unavailable: "no WebGPU" };
  const startable = [
    { name: "chromium", available: true, message: "" },
    { name: "firefox", available: true, message: "" },
    { name: "safari", available: false, message: "runs on macOS only" },
  ];
  const gone = [{ ...device("firefox-150", "Firefox 150"), why: "its page was closed" }];
  const rows = deviceRows({ connected: [started, tab, broken], startable, gone });
  expect(rows.map(({ value, name, state }) => [value, name, state])).toEqual([
    ["chromium", "Chromium 156", "busy"],
    ["chromium-156-2", "Chromium 156 (2)", "ready"],
    ["webkitgtk", "WebKitGTK", "unfit"],
    ["firefox", "firefox", "startable"],
    ["safari", "safari", "missing"],
    ["firefox-150", "Firefox 150", "gone"],
  ]);
  expect(rows.at(-1)?.note).toBe("its page was closed");
});

it("marks in what devices differ", () => {
  const one = {
    features: ["shader-f16", "subgroups"],
    limits: { maxBindGroups: 4, maxBufferSize: 268435456 },
  };
  const other = {
    features: ["subgroups"],
    limits: { maxBindGroups: 4, maxBufferSize: 1073741824, extra: 1 },
  };
  expect(traits([one, other]).map(({ name, values, differs }) => [name, differs, ...values])).toEqual([
    ["shader-f16", true, "yes", "no"],
    ["extra", true, "–", "1"],
    ["maxBufferSize", true, "268,435,456", "1,073,741,824"],
    ["subgroups", false, "yes", "yes"],
    ["maxBindGroups", false, "4", "4"],
  ]);
  expect(traits([one]).every(({ differs }) => !differs)).toBe(true);
});
