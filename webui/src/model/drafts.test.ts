import { describe, expect, it } from "vitest";
import { isForeign, isUnsaved, settled, typed } from "./drafts";

const file = (text: string, digest: string) => ({ name: "k.wgsl", text, digest, path: "/k.wgsl" });
const first = file("one", "d1");

describe("a draft", () => {
  it("is none as long as it is the file, also when it is again", () => {
    const draft = typed(undefined, first, "one and more");
    expect(draft).toEqual({ text: "one and more", was: "d1", saved: false });
    expect(typed(draft, first, "one")).toBeUndefined();
  });

  it("stands when somebody else writes the file, and knows what it was made from", () => {
    const draft = typed(undefined, first, "mine");
    const theirs = file("theirs", "d2");
    expect(isForeign(draft, first)).toBe(false);
    expect(isForeign(settled(draft, theirs), theirs)).toBe(true);
    expect(isForeign(typed(draft, theirs, "mine too"), theirs)).toBe(true);
    // To type what they wrote is to agree with them.
    expect(isForeign(typed(draft, theirs, "theirs"), theirs)).toBe(false);
  });

  it("is gone when what was saved has been read again, and goes on where one typed meanwhile", () => {
    const saved = { text: "mine", was: "d3", saved: true };
    expect(isForeign(saved, first)).toBe(false);
    expect(isUnsaved(saved)).toBe(false);
    expect(settled(saved, first)).toBe(saved);
    expect(settled(saved, file("mine", "d3"))).toBeUndefined();
    const more = typed(saved, first, "mine and more");
    expect(more).toEqual({ text: "mine and more", was: "d3", saved: false });
    expect(settled(more, file("mine", "d3"))).toBe(more);
    expect(isForeign(more, file("mine", "d3"))).toBe(false);
  });
});
