import { expect, it } from "vitest";
import type { TextVersion } from "../api/generated/results";
import { othersOf, passes } from "./versions";

const file = (name: string, text: string) => ({ name, text, digest: text, path: name });
const version = (text: string, at: string, changes: Partial<TextVersion> = {}): TextVersion => ({
  digest: text,
  first: `2026-01-0${at}T00:00:00+00:00`,
  created: `2026-01-0${at}T00:00:00+00:00`,
  edited: true,
  verdicts: {},
  files: { "a.wgsl": text },
  ...changes,
});

it("offers what one compares with, each text once and never the one that is shown", () => {
  const versions = [
    version("bad", "6", { verdicts: { x: "fail", y: "pass" } }),
    version("good", "5", { verdicts: { x: "pass", y: "unsupported" } }),
    version("older good", "4", { verdicts: { x: "pass" } }),
    // Its launches were edited, and its text is as it was generated.
    version("made", "3", { edited: false, files: { "a.wgsl": "made again" } }),
    version("made", "1", { edited: false }),
  ];
  const variants = [file("a_f16.wgsl", "f16"), file("a_same.wgsl", "mine")];
  const names = (shown: string) =>
    othersOf(file("a.wgsl", "disk"), shown, variants, versions).map(({ name, text }) => `${name} = ${text}`);
  expect(names("mine")).toEqual([
    "the file on disk = disk",
    "generated = made",
    "last that passed: 2026-01-05 00:00 on x, y = good",
    "2026-01-06 00:00: fail on x = bad",
    "2026-01-04 00:00: pass on x = older good",
    "2026-01-03 00:00: never ran whole = made again",
    "variant a_f16.wgsl = f16",
  ]);
  expect(names("good")).toContain("last that passed: 2026-01-04 00:00 on x = older good");
  expect(names("disk").some((name) => name.includes("= disk"))).toBe(false);
});

it("calls generated what passes and is generated", () => {
  const versions = [version("made", "1", { edited: false, verdicts: { x: "pass" } })];
  expect(othersOf(file("a.wgsl", "mine"), "mine", [], versions)).toEqual([
    { name: "generated", text: "made" },
  ]);
  expect(passes(version("", "1"))).toBe(false);
  expect(passes(version("", "1", { verdicts: { x: "unsupported" } }))).toBe(false);
});
