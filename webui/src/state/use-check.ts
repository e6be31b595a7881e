/** Whether a kernel is one as it is typed: the server's word, before anything is run or saved. */

import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";

const CHECK_AFTER = 250;

/** What the server would say of these texts if they were saved; null where nothing, or none is unsaved. */
export function useCheck(suite: string, kernel: string, files: Record<string, string>): string | null {
  const [problem, setProblem] = useState<string | null>(null);
  const told = JSON.stringify(files);
  useEffect(() => {
    let gone = false;
    if (Object.keys(files).length === 0) {
      setProblem(null);
      return;
    }
    const timer = setTimeout(() => {
      // Where the server cannot be asked, saving and running say so.
      api.checkFiles(suite, kernel, files).then(
        (answer) => !gone && setProblem(answer.problem),
        () => undefined,
      );
    }, CHECK_AFTER);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [suite, kernel, told]);
  return problem;
}
