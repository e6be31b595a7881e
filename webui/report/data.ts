/** The document that the page carries (tapml.test/1 or tapml.locate/1), unpacked, and what follows from it. */

import type { LocateDocument, RunDocument, RunTest } from "../src/api/generated/results";

export interface Report<Document = RunDocument> {
  document: Document;
  /** PNG in base64, by device id. */
  screenshots: Record<string, string>;
}

/** base64 of gzip of JSON. */
export async function unpack(packed: string): Promise<Report<RunDocument | LocateDocument>> {
  const text = atob(packed.trim());
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text()) as Report<RunDocument | LocateDocument>;
}

const NOT_PLAINLY_PASSED = [
  "fail",
  "error",
  "unbounded",
  "unsupported",
  "expected",
  "fixed",
  "flaky",
] as const;

/** What tests are counted by, in the order in which that is shown. */
export const COUNTED = ["pass", ...NOT_PLAINLY_PASSED] as const;

/** What a list can be narrowed to; "attention" is what someone should look at. */
export const CHOICES = ["attention", "fails run", ...NOT_PLAINLY_PASSED, "pass", "all"] as const;
export type Choice = (typeof CHOICES)[number];

export function chosen(test: RunTest, choice: Choice): boolean {
  switch (choice) {
    case "all":
      return true;
    case "fails run":
      return test.fails_run;
    case "flaky":
      return test.flaky;
    case "expected":
    case "fixed":
      return test.outcome === choice;
    case "attention":
      return test.fails_run || test.flaky || test.outcome === "fixed";
    default:
      return test.verdict === choice;
  }
}

/** Words that must all be in a test's id, kernel, suite, device or message. */
export function matches(test: RunTest, words: readonly string[], device: string): boolean {
  if (words.length === 0) return true;
  const text = `${test.id} ${test.kernel} ${test.node} ${test.suite} ${device} ${test.message}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

/** A word of the shell, quoted where it has to be. */
export function shellQuoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}
