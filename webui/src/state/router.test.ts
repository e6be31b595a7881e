import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { device } from "../model/fixture";
import { choicesOf, selection } from "./device-choice";
import { changed, changeQuery, routeOf, suitePath } from "./router";

it("routes by path", () => {
  expect(routeOf("/")).toEqual({ page: "suites" });
  expect(routeOf("/suites/minilm-3f/")).toEqual({ page: "suite", suite: "minilm-3f" });
  expect(routeOf("/suites/minilm-3f/more").page).toBe("unknown");
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
  const both = choicesOf({ connected: [device("a")], startable, gone: [] });
  expect(selection(both, null)).toEqual(["a"]);
  expect(selection(both, ["firefox", "gone"])).toEqual(["firefox"]);
  expect(selection(both, [])).toEqual([]);
  expect(selection(choicesOf({ connected: [], startable, gone: [] }), null)).toEqual(["firefox"]);
  const broken = { ...device("b"), unavailable: "no WebGPU" };
  expect(selection(choicesOf({ connected: [broken], startable: [], gone: [] }), null)).toEqual([]);
});

it("changes parts of the query and leaves the rest", () => {
  expect(changed("", { node: "n1", device: null })).toBe("?node=n1");
  expect(changed("?node=n1&view=locate", { node: null })).toBe("?view=locate");
  expect(changed("?node=n1", { node: null })).toBe("");
  // Nothing changes: the same text, however it is written.
  expect(changed("?filter=a%20b", { filter: "a b", node: null })).toBe("?filter=a%20b");
});

describe("history", () => {
  const entries: { state: unknown; href: string }[] = [];
  beforeEach(() => {
    entries.splice(0, entries.length, { state: null, href: "/suites/s" });
    const go = (href: string) => {
      const [path = "", search = ""] = href.split("?");
      Object.assign(globalThis.location, { pathname: path, search: search && `?${search}` });
    };
    vi.stubGlobal("location", { pathname: "/suites/s", search: "", hash: "" });
    vi.stubGlobal("dispatchEvent", () => true);
    vi.stubGlobal("history", {
      get state() {
        return entries.at(-1)?.state;
      },
      pushState: (state: unknown, _: string, href: string) => {
        entries.push({ state, href });
        go(href);
      },
      replaceState: (state: unknown, _: string, href: string) => {
        entries.splice(-1, 1, { state, href });
        go(href);
      },
    });
  });
  afterEach(() => vi.unstubAllGlobals());

  it("has a step for a selection and its device together, and none for what is there already", () => {
    changeQuery({ node: "n1", device: "a" });
    changeQuery({ node: "n1" });
    expect(entries.map(({ href }) => href)).toEqual(["/suites/s", "/suites/s?node=n1&device=a"]);
  });

  it("has one step for a word that is typed, another for the next field, none for looking around", () => {
    for (const text of ["l", "la", "lay"]) changeQuery({ filter: text }, "typed");
    changeQuery({ at: "1,2,1" }, "looking");
    changeQuery({ filter: "laye" }, "typed");
    for (const text of ["q", "qk"]) changeQuery({ find: text }, "typed");
    changeQuery({ node: "n1" });
    changeQuery({ filter: null }, "typed");
    expect(entries.map(({ href }) => href.split("?")[1])).toEqual([
      undefined,
      "filter=laye&at=1%2C2%2C1",
      "filter=laye&at=1%2C2%2C1&find=qk",
      "filter=laye&at=1%2C2%2C1&find=qk&node=n1",
      "at=1%2C2%2C1&find=qk&node=n1",
    ]);
  });
});
