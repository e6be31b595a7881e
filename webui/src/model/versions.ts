/** What a kernel's file may be held against: what is on disk, what was generated, what passed, and other variants. */

import type { TextVersion } from "../api/generated/results";
import type { TextFile } from "../api/types";
import { date } from "./format";
import { asState, isProblem, ORDER, WORD } from "./verdicts";

export interface Other {
  name: string;
  text: string;
}

export const ON_DISK = "the file on disk";

/**
 * `shown`: the text that is typed; `variants`: files of the kernel's other variants; `versions`: latest first. What is
 * the same text is left out.
 */
export function othersOf(
  file: TextFile,
  shown: string,
  variants: readonly TextFile[],
  versions: readonly TextVersion[],
): Other[] {
  const found: Other[] = [{ name: ON_DISK, text: file.text }];
  const add = (name: string, version: TextVersion | undefined) => {
    const text = version?.files[file.name];
    if (text !== undefined) found.push({ name, text });
  };
  const generated = [...versions]
    .filter(({ edited }) => !edited)
    .sort((a, b) => compare(a.first, b.first))[0];
  add("generated", generated);
  const passing = versions.filter(passes).find((version) => version.files[file.name] !== shown);
  if (passing !== generated)
    add(`last that passed: ${date(passing?.created ?? "")} on ${where(passing)}`, passing);
  for (const version of versions)
    if (version !== generated && version !== passing)
      add(`${date(version.created)}: ${told(version)}`, version);
  found.push(...variants.map(({ name, text }) => ({ name: `variant ${name}`, text })));
  const seen = new Set([shown]);
  return named(found.filter(({ text }) => !seen.has(text) && seen.add(text)));
}

/** On some device, and nowhere worse. */
export function passes({ verdicts }: TextVersion): boolean {
  const states = Object.values(verdicts);
  return states.includes("pass") && states.every((state) => state === "pass" || state === "unsupported");
}

function told(version: TextVersion): string {
  const worst = ORDER.find((state) => Object.values(version.verdicts).some((one) => asState(one) === state));
  if (worst === undefined) return "never ran whole";
  const on = Object.entries(version.verdicts).filter(([, one]) => asState(one) === worst);
  return `${WORD[worst]} on ${on.map(([device]) => device).join(", ")}`;
}

function where(version: TextVersion | undefined): string {
  return Object.entries(version?.verdicts ?? {})
    .filter(([, verdict]) => !isProblem(asState(verdict)))
    .map(([device]) => device)
    .join(", ");
}

/** Two runs of one minute are told apart. */
function named(others: readonly Other[]): Other[] {
  const counts = new Map<string, number>();
  return others.map(({ name, text }) => {
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    return { name: count > 1 ? `${name} (${count})` : name, text };
  });
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
