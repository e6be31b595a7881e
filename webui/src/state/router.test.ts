import { expect, it } from "vitest";
import { device } from "../model/fixture";
import { choicesOf, selection } from "./device-choice";
import { routeOf, suitePath } from "./router";

it("routes by path", () => {
  expect(routeOf("/")).toEqual({ page: "suites" });
  expect(routeOf("/suites/minilm-3f/more")).toEqual({ page: "suite", suite: "minilm-3f" });
  expect(routeOf("/elsewhere").page).toBe("unknown");
  expect(routeOf("/suites/%E0%A4%A").page).toBe("unknown");
});

it("makes addresses that it can read", () => {
  const odd = "a/b c?#";
  expect(routeOf(suitePath(odd))).toEqual({ page: "suite", suite: odd });
  expect(suitePath("s", { node: "n1" })).toBe("/suites/s?node=n1");
});

it("selects what was picked, else the connected devices, else one that can be started", () => {
  const startable = [
    { name: "node", available: false, message: "" },
    { name: "firefox", available: true, message: "" },
  ];
  const both = choicesOf({ connected: [device("a")], startable });
  expect(selection(both, null)).toEqual(["a"]);
  expect(selection(both, ["firefox", "gone"])).toEqual(["firefox"]);
  expect(selection(both, [])).toEqual([]);
  expect(selection(choicesOf({ connected: [], startable }), null)).toEqual(["firefox"]);
  const broken = { ...device("b"), unavailable: "no WebGPU" };
  expect(selection(choicesOf({ connected: [broken], startable: [] }), null)).toEqual([]);
});
