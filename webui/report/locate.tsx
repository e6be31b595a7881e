/** The page of `tapml locate --html`: the suspects as a suite's page shows them, and what they were found on. */

import { render } from "preact";
import { useState } from "preact/hooks";
import type { LocateDocument } from "../src/api/generated/results";
import { adapter, seconds } from "../src/model/format";
import { accusation } from "../src/model/locate";
import { Fact } from "../src/parts/Basics";
import { LocateResult } from "../src/parts/LocatePane";

export function drawLocate(root: HTMLElement, found: LocateDocument): void {
  document.title = `${found.suite_name}: faulty kernels`;
  root.replaceChildren();
  render(<LocatePage document={found} />, root);
}

function LocatePage({ document }: { document: LocateDocument }) {
  const [node, select] = useState<string | null>(null);
  const [device] = document.devices;
  const parts = Object.entries(document.summary.parts).map(([name, time]) => `${name} ${seconds(time)}`);
  return (
    <>
      <header>
        <h1>{document.suite_name}: faulty kernels</h1>
        <dl class="row facts">
          <Fact name="GPU" value={(device && adapter(device.adapter)) || "not named"} />
          <Fact name="took" value={parts.join(", ")} />
          {document.edited_kernels.length > 0 && (
            <Fact name="edited kernels" value={document.edited_kernels.join(", ")} />
          )}
        </dl>
      </header>
      <section class="locate">
        <LocateResult
          document={document}
          name={device?.name ?? ""}
          node={node}
          kernel={node && (accusation(document, node)?.kernel ?? null)}
          select={select}
        />
      </section>
    </>
  );
}
