/** The document that the page carries (tapml.test/1), unpacked, and what follows from it. */

import type { DeviceFacts, Element, TestResult, Verdict } from "../src/api/documents";

export type Outcome = Verdict | "expected" | "fixed";

export interface Test extends TestResult {
  suite: string;
  attempts: Verdict[];
  earlier: { verdict: Verdict; message: string; first: Element | null; worst: Element | null }[];
  flaky: boolean;
  outcome: Outcome;
  fails_run: boolean;
  expected: { verdict: Verdict; reason: string; expires: string | null; expired: boolean } | null;
}

export interface SuiteFacts {
  id: string;
  digest: string;
  name: string;
  path: string;
  synthetic: boolean;
  edited_kernels: string[];
  tests: number;
}

export interface Device extends DeviceFacts {
  requested: string;
  driver: string | null;
  unavailable: string | null;
}

export interface TestDocument {
  format: "tapml.test/1";
  tapml: string;
  created: string;
  interrupted: boolean;
  shard: string | null;
  baseline: string | null;
  suites: SuiteFacts[];
  devices: Device[];
  tests: Test[];
  summary: Record<Verdict | "expected" | "fixed" | "flaky" | "total" | "fails_run" | "not_run", number> & {
    seconds: number;
  };
}

export interface Report {
  document: TestDocument;
  /** PNG in base64, by device id. */
  screenshots: Record<string, string>;
}

/** base64 of gzip of JSON. */
export async function unpack(packed: string): Promise<Report> {
  const text = atob(packed.trim());
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text()) as Report;
}

/** What a list can be narrowed to; "attention" is what someone should look at. */
export const CHOICES = [
  "attention",
  "fails run",
  "fail",
  "error",
  "unbounded",
  "unsupported",
  "expected",
  "fixed",
  "flaky",
  "pass",
  "all",
] as const;
export type Choice = (typeof CHOICES)[number];

export function chosen(test: Test, choice: Choice): boolean {
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
export function matches(test: Test, words: readonly string[], device: string): boolean {
  if (words.length === 0) return true;
  const text = `${test.id} ${test.kernel} ${test.node} ${test.suite} ${device} ${test.message}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

/** A word of the shell, quoted where it has to be. */
export function shellQuoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}

/** |got − expected|, what the tolerance allows there, and how many times over it is. */
export function excess(
  element: Element,
  test: Test,
): { difference: number; allowed: number; times: number } | null {
  const { expected, got } = element;
  const tolerance = test.tolerances[element.output];
  if (typeof expected !== "number" || typeof got !== "number" || !tolerance) return null;
  const allowed = Number(
    element.bound ?? Number(tolerance.absolute) + Number(tolerance.relative) * Math.abs(expected),
  );
  const difference = Math.abs(got - expected);
  return { difference, allowed, times: allowed > 0 ? difference / allowed : Number.POSITIVE_INFINITY };
}
