import type { SuiteFacts } from "../api/types";
import { bytes, cosine, count, date, error } from "../model/format";
import { useEdited } from "../state/use-edited";
import { Edited } from "./Basics";

/** What must be seen before any verdict is believed: made-up inputs, edited kernels. */
export function SuiteBadges(props: { suite: SuiteFacts }) {
  const { synthetic } = props.suite;
  const edited = useEdited(props.suite);
  return (
    <>
      {synthetic && (
        <span
          class="verdict is-edited outlined"
          title="The inputs were made up, not taken from real use of the model."
        >
          <span aria-hidden="true">⚠ </span>synthetic inputs
        </span>
      )}
      {edited.length > 0 && (
        <Edited
          title="The WGSL of these kernels, or how they are launched, differs from what was generated."
          names={`${edited.slice(0, 3).join(", ")}${edited.length > 3 ? ` and ${edited.length - 3} more` : ""}`}
        />
      )}
    </>
  );
}

/** How much of what it holds, and since when. */
export function SuiteSize(props: { suite: SuiteFacts; kernels: number; tests: number }) {
  const { suite } = props;
  return (
    <>
      <span>{count(props.kernels, "kernel")}</span>
      <span>{count(suite.nodes, "node")}</span>
      <span>{count(props.tests, "test")}</span>
      <span>{bytes(suite.bytes)}</span>
      <span>
        {suite.model.kind === "imported" ? "opened" : "carved"} {date(suite.created)}
      </span>
    </>
  );
}

/** What the expected outputs come from, and whether that run itself can be believed. */
export function ReferenceFacts(props: { suite: SuiteFacts }) {
  return (
    <>
      <span>reference: {referenceText(props.suite.reference)}</span>
      <OracleFact suite={props.suite} />
    </>
  );
}

function OracleFact(props: { suite: SuiteFacts }) {
  const { oracle, oracle_missing } = props.suite;
  if (oracle === null) return <span>{oracle_missing || "not compared with another framework"}</span>;
  return (
    <span class={oracle.agrees ? "" : "tinted is-fail"}>
      <span aria-hidden="true">{oracle.agrees ? "✓ " : "✗ "}</span>
      {oracle.agrees ? "agrees" : "disagrees"} with {oracle.name}: cosine {cosine(oracle.cosine)}, max error{" "}
      {error(oracle.max_abs_error)}
    </span>
  );
}

/** "tvm 0.27 on cpu (LLVM)": the device's name mostly holds the platform's already. */
function referenceText(reference: { platform: string; device: string }): string {
  const { platform, device } = reference;
  return device.toLowerCase().includes(platform.toLowerCase())
    ? device
    : [platform, device].filter(Boolean).join(", ");
}
