import type { KernelBundle, KernelVariant } from "../api/types";
import { count } from "../model/format";
import { extents, held, limitText } from "../model/launch";
import { ScrollBox } from "./ScrollBox";
import { Table } from "./Table";

/** How a variant is launched: one line, opened to bindings and limits. The WGSL below is what one comes for. */
export function LaunchSection(props: {
  bundle: KernelBundle;
  variant: KernelVariant;
  /** The reader wants another variant. */
  pick: (variant: KernelVariant) => void;
}) {
  const { bundle, variant } = props;
  const { variants } = bundle;
  const { entry_points, launches, temporaries, requires } = variant;
  const limits = Object.entries(requires.limits);
  const bindings = entry_points.reduce((sum, entry) => sum + entry.bindings.length, 0);
  const sizeOf = (name: string) => entry_points.find((entry) => entry.name === name)?.workgroup_size ?? [];
  const shown = launches.slice(0, 6);
  return (
    <section class="stack launch" aria-label="Launch">
      {variants.length > 1 && (
        <label>
          variant{" "}
          <select
            value={variant.name}
            onChange={(event) => {
              const picked = variants.find((one) => one.name === event.currentTarget.value);
              if (picked) props.pick(picked);
            }}
          >
            {variants.map(({ name }) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>{" "}
          <span class="muted">a device runs the first of {variants.length} that it can</span>
        </label>
      )}
      <ul>
        {shown.map((launch, at) => (
          <li key={at}>
            {launches.length > 1 && <span class="muted">{at + 1}. </span>}
            <code>{launch.entry_point}</code> {extents(launch.grid)} workgroups of{" "}
            {extents(sizeOf(launch.entry_point))}
          </li>
        ))}
        {launches.length > shown.length && <li class="muted">and {launches.length - shown.length} more</li>}
        {requires.features.length > 0 && <li>needs {requires.features.join(", ")}</li>}
      </ul>
      <details>
        <summary>
          {count(bindings, "binding")}, {count(limits.length, "required limit")}
          {temporaries.length > 0 && `, ${count(temporaries.length, "scratch buffer")}`}
        </summary>
        {entry_points.map((entry) => {
          const holds = held(bundle, variant, entry);
          return (
            <Table
              key={entry.name}
              caption={<code>{entry.name}</code>}
              heads={["binding", "name", "access", "type", "holds"]}
              rows={entry.bindings.map(({ binding, name, access, type }, at) => ({
                key: binding,
                cells: [binding, name, access, type, holds[at]],
              }))}
            />
          );
        })}
        <Table
          caption="Required limits"
          rows={limits.map(([name, bound]) => ({ key: name, cells: [name, limitText(name, bound)] }))}
        />
        <details>
          <summary>As JSON</summary>
          <ScrollBox class="json" label="The kernel's document">
            <pre>{JSON.stringify(bundle, null, 2)}</pre>
          </ScrollBox>
        </details>
      </details>
    </section>
  );
}
