/** What the address asks for and this suite does not have, with what there is instead. */

import { useEffect } from "preact/hooks";
import type { DeviceDocument } from "../api/generated/results";
import type { SuiteDetail } from "../api/types";
import { resolved, unknownOf } from "../model/address";
import { changeQuery, useQuery } from "../state/router";

export function UnknownParts(props: {
  suite: SuiteDetail;
  /** Null while results are not there. */
  devices: readonly DeviceDocument[] | null;
  select: (node: string) => void;
}) {
  const { suite, devices, select } = props;
  const [node] = useQuery("node");
  const [test] = useQuery("test");
  const [kernel] = useQuery("kernel");
  const [device] = useQuery("device");
  const asked = { node, test, kernel, device };
  // An address may name a test or a kernel: what is shown is its node.
  const query = resolved(suite, asked);
  useEffect(() => {
    if (query !== null) changeQuery(query, "looking");
  }, [test, kernel]);
  if (query !== null) return null;
  const ids = devices?.map(({ id }) => id) ?? null;
  return unknownOf(suite, ids, asked).map(({ name, sentence, instead }) => (
    <div key={name} class="row problem" role="alert">
      <p>{sentence}</p>
      {instead && (
        <button
          type="button"
          onClick={() => {
            changeQuery({ [name]: null }, "looking");
            select(instead.node);
          }}
        >
          Show {instead.word}
        </button>
      )}
      <button type="button" onClick={() => changeQuery({ [name]: null })}>
        {name === "device" ? "Show what there is" : "Show the whole suite"}
      </button>
    </div>
  ));
}
