import { describe, expect, it } from "vitest";
import vectors from "../../../tests/vectors/compiled.json";
import { ModelError, verified } from "./verify";

interface Case {
  title: string;
  document: string;
  changes: [(string | number)[], unknown][];
  error?: string | null;
  form?: boolean;
}

const documents: Record<string, unknown> = vectors.documents;

/** A document with some of its fields changed, each by its path. */
function changed({ document, changes }: Case): unknown {
  const found = structuredClone(documents[document]);
  for (const [path, value] of changes) {
    let place = found as Record<string | number, unknown>;
    for (const part of path.slice(0, -1)) place = place[part] as typeof place;
    place[path.at(-1) as string] = value;
  }
  return found;
}

/** The sentence that refuses a document; null for none. */
function refusal(document: unknown): string | null {
  try {
    verified(document);
    return null;
  } catch (cause) {
    if (cause instanceof ModelError) return cause.message;
    throw cause;
  }
}

describe("verified", () => {
  it.each(Object.keys(documents))("proves %s", (name) => {
    expect(refusal(documents[name])).toBeNull();
  });

  it.each((vectors.cases as unknown as Case[]).map((found) => [found.title, found] as const))(
    "refuses, in one sentence, %s",
    (_, found) => {
      const sentence = refusal(changed(found));
      if (found.form) expect(sentence).toMatch(/^[a-z]+[[.\w\]]*: /);
      else expect(sentence).toBe(found.error);
    },
  );

  it("refuses what is no object", () => {
    for (const found of [null, [], 1, "model", undefined]) expect(refusal(found)).toContain("the document: ");
  });
});
