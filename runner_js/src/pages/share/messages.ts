/** A shared test as what the runner takes, and what page and worker tell each other. */
import type { Outcome, Repro } from "../../../repro/types";
import type { Kernel, Test } from "../../protocol/messages";

/** Run this; its blobs are below `base`. */
export interface Request {
  base: string;
  repro: Repro;
}

export interface Answer {
  outcome: Outcome;
}

/** Throws where the document names a file that it does not hold. */
export function kernelMessage({ kernel, files }: Repro): Kernel {
  const digests = new Map(files.map(({ name, sha256 }) => [name, sha256]));
  const codeOf = (file: string) => {
    const digest = digests.get(file);
    if (!digest) throw new Error(`the shared test names ${file} and does not hold it`);
    return digest;
  };
  return {
    kernel: kernel.kernel,
    symbols: kernel.symbols,
    variants: kernel.variants.map(
      ({ name, requires, entry_points, launches, temporaries, textures = [] }) => ({
        name,
        requires,
        entry_points: entry_points.map(({ name, file, bindings }) => ({
          name,
          file,
          code: codeOf(file),
          bindings: bindings.map(({ binding, access, texture = null }) => ({ binding, access, texture })),
        })),
        launches,
        temporaries,
        textures,
      }),
    ),
    overwrites: kernel.arguments.flatMap(({ overwrites: input = null }, argument) =>
      input === null ? [] : [{ argument, input }],
    ),
  };
}

export function testMessage({ test, kernel, inputs, outputs }: Repro): Test {
  const ref = ({ digest, dtype, shape, encoding = null }: Repro["inputs"][number]) => {
    return { digest, dtype, shape, encoding };
  };
  return {
    id: test.id,
    kernel: kernel.kernel,
    sizes: test.sizes,
    inputs: inputs.map(ref),
    outputs: outputs.map(ref),
    tolerances: outputs.map(({ tolerance: { absolute, relative, bound = null, ties = null } }) => {
      return { absolute, relative, bound, ties };
    }),
  };
}

/** A visitor's own result below the issue's text; the fence is longer than any in the result itself. */
export function withResult(issue: string, result: string): string {
  const longest = Math.max(0, ...(result.match(/`+/g) ?? []).map((run) => run.length));
  const fence = "`".repeat(Math.max(3, longest + 1));
  return `${issue.trimEnd()}\n\n## Tried again\n\n${fence}text\n${result}\n${fence}\n`;
}
