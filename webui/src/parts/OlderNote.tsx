import type { DeviceDocument } from "../api/generated/results";
import { editedText } from "../model/older";
import { OLDER } from "../model/verdicts";
import type { Again } from "../state/again";
import { VerdictBadge } from "./Basics";

/** Above a result some of whose kernels are others by now: which, and the way to a result of what is there. */
export function OlderNote(props: {
  changed: ReadonlySet<string>;
  again?: Again | undefined;
  device: DeviceDocument | undefined;
}) {
  const { changed, again, device } = props;
  if (changed.size === 0) return null;
  return (
    <p class="row older-note" role="status">
      <VerdictBadge state="stale" word={OLDER} />
      <span>{editedText(changed)}.</span>
      {again && device && (
        <button
          type="button"
          class="run-again"
          disabled={!again.possible(device)}
          title={again.possible(device) ? `On ${device.name}` : `${device.name} is not there, or a job runs`}
          onClick={() => again.start(device)}
        >
          <span aria-hidden="true">▸ </span>
          {again.name} again
        </button>
      )}
    </p>
  );
}
