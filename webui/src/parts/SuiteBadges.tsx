import type { SuiteFacts } from "../api/types";
import { cosine, error } from "../model/format";
import { Edited } from "./Basics";

/** What must be seen before any verdict is believed: made-up inputs, edited kernels. */
export function SuiteBadges(props: { suite: SuiteFacts }) {
  const { synthetic, edited } = props.suite;
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
          title="The WGSL of these kernels differs from what was generated."
          names={`${edited.slice(0, 3).join(", ")}${edited.length > 3 ? ` and ${edited.length - 3} more` : ""}`}
        />
      )}
    </>
  );
}

/** Whether the reference run itself can be believed. */
export function OracleFact(props: { suite: SuiteFacts }) {
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
export function referenceText(reference: { platform: string; device: string }): string {
  const { platform, device } = reference;
  return device.toLowerCase().includes(platform.toLowerCase())
    ? device
    : [platform, device].filter(Boolean).join(", ");
}
