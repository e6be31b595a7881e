import type { Rerun } from "./shared";

/** Beside a verdict of an older text: run the kernel as it is now. */
export function RunAgain(props: { kernel: string; rerun: Rerun }) {
  const { devices, possible, start } = props.rerun;
  const where = devices.length > 0 ? `on ${devices.join(", ")}` : "choose a device above";
  return (
    <button
      type="button"
      class="run-again"
      disabled={!possible}
      title={`Run ${props.kernel} as it is now: ${where}`}
      onClick={() => start([props.kernel])}
    >
      <span aria-hidden="true">▸ </span>Run<span class="sr-only"> {props.kernel} again</span>
    </button>
  );
}
