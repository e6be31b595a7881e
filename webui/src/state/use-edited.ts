/** Which kernels are edited, as it is on disk now. */

import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import { onConnection, onKernelsChanged } from "../api/socket";
import type { SuiteFacts } from "../api/types";
import { editedNow } from "../model/older";

export function useEdited(suite: Pick<SuiteFacts, "id" | "edited">): readonly string[] {
  const [edited, setEdited] = useState<readonly string[]>(suite.edited);
  useEffect(() => {
    let lost = false;
    let gone = false;
    setEdited(suite.edited);
    const undo = [
      onKernelsChanged((message) => {
        if (message.suite === suite.id) setEdited((before) => editedNow(before, message.kernels));
      }),
      onConnection((connected) => {
        // What was edited meanwhile nobody told; where it cannot be asked the page says so elsewhere.
        if (connected && lost)
          api.suite(suite.id).then(
            (now) => !gone && setEdited(now.edited),
            () => undefined,
          );
        lost = !connected;
      }),
    ];
    return () => {
      gone = true;
      for (const stop of undo) stop();
    };
  }, [suite.id, suite.edited]);
  return edited;
}
