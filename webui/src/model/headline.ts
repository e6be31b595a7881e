/** What a verdict comes to in a few words: its worst element against its bound first, and the time that the GPU took. */

import { ofBound, shareOf, shareText, shareTick, timesBound } from "../../../runner_js/kit/headline";
import type { TestResult } from "../api/generated/results";
import { seconds } from "./format";

/** What exported files write too. */
export { ofBound, shareOf, shareText, shareTick, timesBound };

/** Whether the message is of the compiler's words alone, which are shown with their lines. */
export function repeatsDiagnostics(result: Pick<TestResult, "error" | "diagnostics">): boolean {
  return result.error?.kind === "compile" && result.diagnostics.some(({ severity }) => severity === "error");
}

/** "GPU 31 µs" where the device has timestamps. */
export function timeText(result: Pick<TestResult, "seconds">): string | null {
  const { gpu } = result.seconds;
  return gpu === undefined ? null : `GPU ${seconds(gpu)}`;
}
