import { describe, expect, it } from "vitest";
import { languageFeatures } from "./language";

describe("languageFeatures", () => {
  it("has those that kernels may require", () => {
    const language = new Set(["packed_4x8_integer_dot_product", "pointer_composite_access"]);
    expect(languageFeatures(language)).toEqual(["packed_4x8_integer_dot_product"]);
  });

  it("has none where none are told", () => {
    expect(languageFeatures(new Set())).toEqual([]);
    expect(languageFeatures(undefined)).toEqual([]);
  });
});
