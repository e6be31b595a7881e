/** Verdicts by the text of the kernel that they are of: what is shown is of the text on disk, wherever there is such. */

import type { TestResult } from "../api/generated/results";
import type { KernelNow } from "../api/types";

/** Device id -> kernel -> digest -> test id -> result. */
export type Shelf = Record<string, Record<string, Record<string, Record<string, TestResult>>>>;

/** The part of a suite's results that this is about. */
export interface Texts {
  /** Device id -> test id -> result that is shown. */
  verdicts: Record<string, Record<string, TestResult>>;
  /** What the kernels are on disk. */
  kernels: Record<string, KernelNow>;
  /** Device id -> kernel -> digest of the text that its verdicts are of. */
  ran: Record<string, Record<string, string>>;
  /** Verdicts of other texts than those shown. */
  shelf: Shelf;
  /** Device id -> kernels that were edited since its verdicts; follows from `kernels` and `ran`. */
  outdated: Record<string, readonly string[]>;
}

/** Of one kernel on one device: what one tries in a row, not a history. */
export const MOST_TEXTS = 16;

/** What was tried of a kernel's text, whether it is on disk or not. */
export function resultsOf(
  state: Texts,
  device: string,
  kernel: string,
  digest: string,
): Record<string, TestResult> {
  if (state.ran[device]?.[kernel] === digest) return ofKernel(state.verdicts[device], kernel);
  return state.shelf[device]?.[kernel]?.[digest] ?? {};
}

/** Kernels are others now: verdicts of their texts are shown if there are any, those of others are marked as such. */
export function withKernels<T extends Texts>(state: T, kernels: Record<string, KernelNow>): T {
  let next = { ...state, kernels: { ...state.kernels, ...kernels } };
  for (const [device, shelf] of Object.entries(next.shelf)) {
    const back = Object.entries(kernels).filter(
      ([kernel, { digest }]) => digest !== null && shelf[kernel]?.[digest] !== undefined,
    );
    if (back.length === 0) continue;
    const draft = new Draft(next, device);
    for (const [kernel, { digest }] of back) draft.show(kernel, digest ?? "");
    next = draft.joined(next);
  }
  return withOutdated(next);
}

/** A device's result of a text: of the digest that the job told, if it has told. */
export interface Told {
  result: TestResult;
  digest: string | undefined;
}

/** More results of texts on a device. `trial`: of some that are not on disk, which hide nothing that is. */
export function withResults<T extends Texts>(
  state: T,
  device: string,
  told: readonly Told[],
  trial: boolean,
): T {
  const draft = new Draft(state, device);
  for (const { result, digest } of told) {
    const ran = draft.ran[result.kernel];
    const onDisk = state.kernels[result.kernel]?.digest;
    if (digest !== undefined && trial && ran !== digest && onDisk !== digest) draft.keep(result, digest);
    else {
      if (digest !== undefined && ran !== digest) draft.show(result.kernel, digest);
      draft.add(result);
    }
  }
  return withOutdated(draft.joined(state));
}

/** Kernels' results on a device are cleared from view: they may be asked for by their texts again. */
export function withoutKernels<T extends Texts>(state: T, device: string, kernels: Iterable<string>): T {
  const draft = new Draft(state, device);
  for (const kernel of kernels) draft.clear(kernel);
  return draft.joined(state);
}

/** One device's part of `Texts`, copied once for however many changes: a model has ten thousand tests. */
class Draft {
  readonly ran: Record<string, string>;
  private readonly verdicts: Record<string, TestResult>;
  private readonly shelf: Record<string, Record<string, Record<string, TestResult>>>;
  /** Ids of the tests in view, by kernel. */
  private readonly ids = new Map<string, Set<string>>();

  constructor(
    state: Texts,
    private readonly device: string,
  ) {
    this.ran = { ...state.ran[device] };
    this.verdicts = { ...state.verdicts[device] };
    this.shelf = { ...state.shelf[device] };
    for (const [id, { kernel }] of Object.entries(this.verdicts)) this.idsOf(kernel).add(id);
  }

  private idsOf(kernel: string): Set<string> {
    const known = this.ids.get(kernel) ?? new Set();
    this.ids.set(kernel, known);
    return known;
  }

  add(result: TestResult): void {
    this.verdicts[result.id] = result;
    this.idsOf(result.kernel).add(result.id);
  }

  /** One more of a text that is not in view. */
  keep(result: TestResult, digest: string): void {
    const { kernel, id } = result;
    this.put(kernel, digest, { ...this.shelf[kernel]?.[digest], [id]: result });
  }

  clear(kernel: string): void {
    const ids = this.ids.get(kernel) ?? new Set();
    const digest = this.ran[kernel];
    if (digest !== undefined && ids.size > 0) {
      const own: Record<string, TestResult> = {};
      for (const id of ids) {
        const found = this.verdicts[id];
        if (found !== undefined) own[id] = found;
      }
      this.put(kernel, digest, own);
    }
    for (const id of ids) delete this.verdicts[id];
    this.ids.delete(kernel);
  }

  /** Another text's results come into view, those in view onto the shelf. */
  show(kernel: string, digest: string): void {
    this.clear(kernel);
    for (const result of Object.values(this.shelf[kernel]?.[digest] ?? {})) this.add(result);
    this.ran[kernel] = digest;
  }

  private put(kernel: string, digest: string, results: Record<string, TestResult>): void {
    const { [digest]: _, ...others } = this.shelf[kernel] ?? {};
    const kept = Object.entries(others).slice(1 - MOST_TEXTS);
    this.shelf[kernel] = { ...Object.fromEntries(kept), [digest]: results };
  }

  joined<T extends Texts>(state: T): T {
    const { device, verdicts, ran, shelf } = this;
    return {
      ...state,
      verdicts: { ...state.verdicts, [device]: verdicts },
      ran: { ...state.ran, [device]: ran },
      shelf: { ...state.shelf, [device]: shelf },
    };
  }
}

/** What a job that was cancelled had cleared from view and has no verdict of comes back: tests keep what they had. */
export function restored<T extends Texts>(state: T, device: string): T {
  const tests = { ...state.verdicts[device] };
  for (const [kernel, texts] of Object.entries(state.shelf[device] ?? {})) {
    for (const [id, test] of Object.entries(texts[state.ran[device]?.[kernel] ?? ""] ?? {}))
      tests[id] ??= test;
  }
  return withOutdated({ ...state, verdicts: { ...state.verdicts, [device]: tests } });
}

/** What a saved document keeps of texts that were replaced. */
export function withEarlier<T extends Texts>(
  state: T,
  device: string,
  earlier: Record<string, TestResult[]>,
): T {
  let next = state;
  for (const [digest, tests] of Object.entries(earlier)) {
    const kernel = tests[0]?.kernel;
    if (kernel === undefined) continue;
    const results = Object.fromEntries(tests.map((test) => [test.id, { ...test, device }]));
    next = shelved(next, device, kernel, digest, results);
  }
  return next;
}

function withOutdated<T extends Texts>(state: T): T {
  const outdated: Record<string, readonly string[]> = {};
  for (const [device, ran] of Object.entries(state.ran)) {
    const others = Object.keys(ran).filter((kernel) => {
      const now = state.kernels[kernel];
      return now !== undefined && now.digest !== ran[kernel];
    });
    if (others.length > 0) outdated[device] = others;
  }
  return { ...state, outdated };
}

function shelved<T extends Texts>(
  state: T,
  device: string,
  kernel: string,
  digest: string,
  results: Record<string, TestResult>,
): T {
  const { [digest]: _, ...others } = state.shelf[device]?.[kernel] ?? {};
  const kept = Object.entries(others).slice(1 - MOST_TEXTS);
  const texts = { ...Object.fromEntries(kept), [digest]: results };
  return {
    ...state,
    shelf: { ...state.shelf, [device]: { ...state.shelf[device], [kernel]: texts } },
  };
}

function ofKernel(tests: Record<string, TestResult> | undefined, kernel: string): Record<string, TestResult> {
  return Object.fromEntries(Object.entries(tests ?? {}).filter(([, test]) => test.kernel === kernel));
}

/**
 * Kernels whose text is another one than the page has `seen`, and of which some device has verdicts of another text only.
 * What is met for the first time is taken as seen.
 */
export function due(state: Texts, seen: Record<string, string | null>): string[] {
  const found: string[] = [];
  for (const [kernel, { digest }] of Object.entries(state.kernels)) {
    if (!(kernel in seen)) seen[kernel] = digest;
    if (digest === null || seen[kernel] === digest) continue;
    const ran = Object.values(state.ran).map((kernels) => kernels[kernel]);
    if (ran.length > 0 && ran.every((other) => other === undefined || other === digest))
      seen[kernel] = digest;
    else found.push(kernel);
  }
  return found;
}

/** This text of a kernel has this digest; of so many texts of one kernel it is known. */
export function withKnown<T extends { known: Record<string, Record<string, string>> }>(
  state: T,
  kernel: string,
  texts: string,
  digest: string,
): T {
  if (state.known[kernel]?.[texts] === digest) return state;
  const { [texts]: _, ...others } = state.known[kernel] ?? {};
  const kept = Object.fromEntries(Object.entries(others).slice(1 - MOST_TEXTS));
  return { ...state, known: { ...state.known, [kernel]: { ...kept, [texts]: digest } } };
}
