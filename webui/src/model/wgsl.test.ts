import { describe, expect, it } from "vitest";
import { tokenizeLines } from "./wgsl";

const kinds = (line: string) => tokenizeLines(line)[0]?.map(({ kind, text }) => [kind, text]);

describe("tokenizeLines", () => {
  it("loses no character", () => {
    const text =
      "fn f(a: i32) -> f32 {\n  /* a /* nested */ b\n still */ return 0x1.8p3f + .5 + 1e-5; // end\n}\n\t€ @x";
    const joined = tokenizeLines(text).map((tokens) => tokens.map((token) => token.text).join(""));
    expect(joined.join("\n")).toBe(text);
  });

  it("knows keywords, types, calls, attributes and numbers", () => {
    expect(kinds("@binding(0) var<storage, read> a : array<f32>;")).toEqual([
      ["attribute", "@binding"],
      ["plain", "("],
      ["number", "0"],
      ["plain", ") "],
      ["keyword", "var"],
      ["plain", "<"],
      ["type", "storage"],
      ["plain", ", "],
      ["type", "read"],
      ["plain", "> a : "],
      ["type", "array"],
      ["plain", "<"],
      ["type", "f32"],
      ["plain", ">;"],
    ]);
    expect(kinds("fma(v__1, 384i)")?.slice(0, 2)).toEqual([
      ["builtin", "fma"],
      ["plain", "(v__1, "],
    ]);
  });

  it("carries a nested block comment over lines", () => {
    const lines = tokenizeLines("a /* 1 /* 2 */\nstill\nend */ let");
    expect(lines[1]).toEqual([{ kind: "comment", text: "still" }]);
    expect(lines[2]?.map((token) => token.kind)).toEqual(["comment", "plain", "keyword"]);
  });

  it("takes a digit inside a name for the name's", () => {
    expect(kinds("red_buf0")).toEqual([["plain", "red_buf0"]]);
  });

  it("loses nothing of a very long line", () => {
    const line = "((((v__1 * 384i) + ".repeat(20_000);
    const [tokens] = tokenizeLines(line);
    expect(tokens?.map(({ text }) => text).join("")).toBe(line);
  });
});
