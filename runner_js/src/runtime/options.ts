import type { CaptureOptions, LoadOptions, PrepareOptions, RunOptions } from "./api";
import { TapmlError } from "./error";

type All<T> = Record<keyof T, true>;

const PREPARE: All<PrepareOptions> = { device: true, memory: true, onProgress: true, signal: true };
const LOAD: All<LoadOptions> = {
  ...PREPARE,
  unvalidated: true,
  modules: true,
  fetch: true,
  cache: true,
  choose: true,
};
const RUN: All<RunOptions> = { signal: true, sizes: true, outputs: true, more: true };
const CAPTURE: All<CaptureOptions> = {
  function: true,
  inputs: true,
  sizes: true,
  nodes: true,
  sample: true,
  maxBytes: true,
  weights: true,
  signal: true,
};
const KNOWN = { load: LOAD, reload: PREPARE, run: RUN, profile: RUN, capture: CAPTURE };

/** Throws a TapmlError of kind "input" for an option that the method has not. */
export function checkOptions(method: keyof typeof KNOWN, options: object): void {
  const known = KNOWN[method];
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(known, name));
  if (unknown === undefined) return;
  throw new TapmlError(
    "input",
    `${method} has no option ${unknown}`,
    `there are ${Object.keys(known).join(", ")}`,
  );
}
